import io
import tarfile

import pytest
import torch

from gradorder_lab.data import SOURCES
from gradorder_lab.errors import DatasetFileError, DatasetNotFoundError


def write_folder(folder, cifar_records):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (_, content) in cifar_records.items():
        (folder / name).write_bytes(content)
    return folder.parent


def write_archive(path, cifar_records, folder="cifar-bin", **extra):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {**{k: v[1] for k, v in cifar_records.items()}, **extra}.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path.parent


def assert_same(read, cifar_records):
    first, second, test = (split for split, _ in cifar_records.values())
    assert torch.equal(read.train.images, torch.cat([first.images, second.images]))
    assert torch.equal(read.train.labels, torch.cat([first.labels, second.labels]))
    assert torch.equal(read.test.images, test.images)
    assert torch.equal(read.test.labels, test.labels)
    assert read.train.images.shape == (8, 3, 32, 32)
    assert read.train.labels.dtype == torch.int64


def test_reads_what_was_written(tmp_path, cifar_files, cifar_records):
    assert_same(cifar_files.read(write_folder(tmp_path / "cifar-bin", cifar_records)), cifar_records)


def test_in_the_directory_itself(tmp_path, cifar_files, cifar_records):
    write_folder(tmp_path / "any", cifar_records)
    assert_same(cifar_files.read(tmp_path / "any"), cifar_records)


@pytest.mark.parametrize("place", [".", "cifar-bin"])
def test_reads_the_archive(tmp_path, cifar_files, cifar_records, place):
    (tmp_path / place).mkdir(exist_ok=True)
    write_archive(tmp_path / place / "cifar-binary.tar.gz", cifar_records)
    before = sorted(tmp_path.rglob("*"))
    assert_same(cifar_files.read(tmp_path), cifar_records)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_archive_with_unsafe_paths_writes_nothing(tmp_path, cifar_files, cifar_records):
    root = tmp_path / "data"
    root.mkdir()
    write_archive(root / "cifar-binary.tar.gz", cifar_records, folder="../../outside")
    before = sorted(tmp_path.rglob("*"))
    assert_same(cifar_files.read(root), cifar_records)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_in_an_archive_is_not_followed(tmp_path, cifar_files, cifar_records):
    link = tarfile.TarInfo("cifar-bin/test.bin")
    link.type, link.linkname = tarfile.SYMTYPE, "batch_1.bin"
    with tarfile.open(tmp_path / "cifar-binary.tar.gz", "w:gz") as tar:
        for name in cifar_files.train_files:
            member = tarfile.TarInfo(f"cifar-bin/{name}")
            member.size = len(cifar_records[name][1])
            tar.addfile(member, io.BytesIO(cifar_records[name][1]))
        tar.addfile(link)
    with pytest.raises(DatasetFileError, match=r"cifar-binary.tar.gz: holds no test.bin"):
        cifar_files.read(tmp_path)


def test_nothing_there(tmp_path, cifar_files):
    assert cifar_files.read(tmp_path) is None


def test_some_files_missing(tmp_path, cifar_files, cifar_records):
    root = write_folder(tmp_path / "cifar-bin", cifar_records)
    (root / "cifar-bin" / "batch_2.bin").unlink()
    with pytest.raises(DatasetNotFoundError, match=r"cifar-bin holds some files .* but not batch_2.bin$"):
        cifar_files.read(root)


def test_member_missing(tmp_path, cifar_files, cifar_records):
    del cifar_records["batch_2.bin"]
    root = write_archive(tmp_path / "cifar-binary.tar.gz", cifar_records)
    with pytest.raises(DatasetFileError, match=r"cifar-binary.tar.gz: holds no batch_2.bin"):
        cifar_files.read(root)


@pytest.mark.parametrize("num_parts", range(1, 16))
def test_truncated_archive(tmp_path, cifar_files, cifar_records, num_parts):
    path = tmp_path / "cifar-binary.tar.gz"
    write_archive(path, cifar_records)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * num_parts // 16])
    with pytest.raises(DatasetFileError, match=r"cifar-binary.tar.gz: (truncated or corrupt archive|holds no)"):
        cifar_files.read(tmp_path)


def test_not_an_archive(tmp_path, cifar_files):
    (tmp_path / "cifar-binary.tar.gz").write_text("<html>404</html>")
    with pytest.raises(DatasetFileError, match=r"cifar-binary.tar.gz: truncated or corrupt archive"):
        cifar_files.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1], "truncated or corrupt: 12295 bytes are no whole number of records of 3074"),
        (lambda content: b"", "truncated or corrupt: 0 bytes"),
        (lambda content: content[: 2 * 3074], "must hold 4 records, got 2"),
        (lambda content: content[:3075] + b"\x64" + content[3076:], "labels must be 0 to 99, got 100 in record 1"),
        (lambda content: b"\x14" + content[1:], "labels must be 0 to 19, got 20 in record 0"),
    ],
)
@pytest.mark.parametrize("write", [write_folder, write_archive])
def test_damaged(tmp_path, cifar_files, cifar_records, write, change, message):
    split, content = cifar_records["batch_2.bin"]
    cifar_records["batch_2.bin"] = split, change(content)
    place = "cifar-bin" if write is write_folder else "cifar-binary.tar.gz"
    root = write(tmp_path / place, cifar_records)
    with pytest.raises(DatasetFileError) as raised:
        cifar_files.read(root)
    assert str(raised.value).startswith(f"{root / place / 'batch_2.bin'}: {message}")


def test_the_two_data_sets_as_published():
    ten, hundred = SOURCES["cifar10"], SOURCES["cifar100"]
    assert ten.files.label_ranges == (len(ten.class_names),)
    assert ten.files.records_per_file * len(ten.files.train_files) == ten.num_train
    assert hundred.files.label_ranges == (20, len(hundred.class_names))
    assert len(set(hundred.class_names)) == 100
    assert sorted(hundred.class_names) == list(hundred.class_names)

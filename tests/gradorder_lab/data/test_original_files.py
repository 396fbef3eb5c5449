import gzip
import io
import tarfile

import pytest
import torch

from gradorder_lab.data.original_files import IDX_NAMES, CifarFiles, IdxFiles
from gradorder_lab.errors import DatasetFileError

IDX = IdxFiles(folders=("mnist", "MNIST/raw"))
CIFAR = CifarFiles("cifar-bin", "cifar.tar.gz", "cifar", ("batch_1.bin", "batch_2.bin"), "test.bin", num_label_bytes=2)


def assert_same(read, splits):
    for got, expected in zip(read, splits, strict=True):
        assert (got.images.dtype, got.labels.dtype) == (torch.uint8, torch.int64)
        assert torch.equal(got.images, expected.images)
        assert torch.equal(got.labels, expected.labels)


@pytest.mark.parametrize("layout", ["mnist", "MNIST/raw"])
def test_idx_files_hold_what_was_written(tmp_path, idx_dir, idx_splits, layout):
    root = tmp_path / "other"
    (root / layout).parent.mkdir(parents=True)
    (idx_dir / "mnist").rename(root / layout)
    assert_same(IDX.read(root), idx_splits)


def test_idx_files_in_another_place_are_not_found(idx_dir):
    assert IDX.read(idx_dir / "mnist") is None


@pytest.mark.parametrize("name", IDX_NAMES)
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:12],
        lambda content: content[:-1],
        lambda content: content[:30] + bytes([content[30] ^ 255]) + content[31:],
        lambda content: b"<html>404</html>",
        lambda content: b"",
        lambda content: gzip.compress(gzip.decompress(content)[:10]),
        lambda content: gzip.compress(gzip.decompress(content)[:-1]),
        lambda content: gzip.compress(gzip.decompress(content) + b"0"),
    ],
)
def test_a_damaged_idx_file_is_named(idx_dir, name, damage):
    path = idx_dir / "mnist" / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DatasetFileError) as raised:
        IDX.read(idx_dir)
    assert raised.value.path == path


def test_a_missing_idx_file_is_named(idx_dir):
    (idx_dir / "mnist" / IDX_NAMES[1]).unlink()
    with pytest.raises(DatasetFileError) as raised:
        IDX.read(idx_dir)
    assert raised.value.path == idx_dir / "mnist" / IDX_NAMES[1]


@pytest.fixture
def records():
    """File name -> images, labels and bytes: records of a coarse label, a label and 3 x 32 x 32 pixels."""
    generator, found = torch.Generator().manual_seed(0), {}
    for name in (*CIFAR.train_files, CIFAR.test_file):
        images = torch.randint(256, (4, 3, 32, 32), generator=generator, dtype=torch.uint8)
        labels = torch.randint(100, (4,), generator=generator)
        pairs = zip(labels.tolist(), images.flatten(1).tolist(), strict=True)
        found[name] = images, labels, b"".join(bytes([label // 5, label, *pixels]) for label, pixels in pairs)
    return found


def write_folder(root, records):
    (root / "cifar-bin").mkdir(parents=True)
    for name, (_, _, content) in records.items():
        (root / "cifar-bin" / name).write_bytes(content)


def write_archive(root, records, folder="cifar-bin"):
    root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(root / "cifar.tar.gz", "w:gz") as tar:
        for name, (_, _, content) in records.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("write", [write_folder, write_archive])
@pytest.mark.parametrize("place", [".", "cifar"])
def test_cifar_files_hold_what_was_written(tmp_path, records, write, place):
    write(tmp_path / place, records)
    first, second, test = records.values()
    train = torch.cat([first[0], second[0]]), torch.cat([first[1], second[1]])
    read = CIFAR.read(tmp_path)
    assert_same(read, (type(read.train)(*train), type(read.test)(*test[:2])))


def test_an_archive_is_never_written_to_disk(tmp_path, records):
    write_archive(tmp_path / "data", records, folder="../../outside")
    before = sorted(tmp_path.rglob("*"))
    assert CIFAR.read(tmp_path / "data") is not None
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_in_an_archive_is_not_followed(tmp_path, records):
    content = records["batch_1.bin"][2]
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as tar:
        for name in (*CIFAR.train_files, CIFAR.test_file):
            member = tarfile.TarInfo(f"cifar-bin/{name}")
            if name == CIFAR.test_file:
                member.type, member.linkname = tarfile.SYMTYPE, "batch_1.bin"
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    with pytest.raises(DatasetFileError, match=r"cifar.tar.gz: .*test.bin"):
        CIFAR.read(tmp_path)


def test_no_cifar_files(tmp_path):
    assert CIFAR.read(tmp_path) is None


def test_a_missing_cifar_file_is_named(tmp_path, records):
    del records["batch_2.bin"]
    write_folder(tmp_path, records)
    with pytest.raises(DatasetFileError, match=r"batch_2.bin: cannot be read"):
        CIFAR.read(tmp_path)


@pytest.mark.parametrize("num_parts", range(8))
def test_a_truncated_archive_is_named(tmp_path, records, num_parts):
    write_archive(tmp_path, records)
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size * num_parts // 8])
    with pytest.raises(DatasetFileError) as raised:
        CIFAR.read(tmp_path)
    assert raised.value.path == path


@pytest.mark.parametrize("content", [b"", b"0" * 3073])
def test_files_of_other_records_are_refused(tmp_path, records, content):
    records["batch_2.bin"] = (*records["batch_2.bin"][:2], content)
    write_folder(tmp_path, records)
    with pytest.raises(DatasetFileError, match=r"batch_2.bin: must hold records of 3074 bytes"):
        CIFAR.read(tmp_path)

import gzip
import hashlib

import pytest
import torch

from gradorder_lab.data import SOURCES
from gradorder_lab.data.idx import IdxFiles
from gradorder_lab.errors import DatasetFileError, DatasetNotFoundError

FILES = IdxFiles(folders=("mnist", "MNIST/raw", "."))
TRAIN_IMAGES = "train-images-idx3-ubyte"
TRAIN_LABELS = "train-labels-idx1-ubyte"


def rewrite(path, change):
    path.write_bytes(change(path.read_bytes()))


def rewrite_unpacked(path, change):
    rewrite(path, lambda packed: gzip.compress(change(gzip.decompress(packed))))


def assert_same(read, splits):
    for got, expected in zip(read, splits, strict=True):
        assert got.images.dtype == torch.uint8
        assert got.labels.dtype == torch.int64
        assert torch.equal(got.images, expected.images)
        assert torch.equal(got.labels, expected.labels)


def test_reads_what_was_written(idx_dir, idx_splits):
    assert_same(FILES.read(idx_dir), idx_splits)


@pytest.mark.parametrize("layout", ["mnist", "MNIST/raw", "."])
def test_layouts(tmp_path, idx_dir, idx_splits, layout):
    root = tmp_path / "other"
    (root / layout).parent.mkdir(parents=True, exist_ok=True)
    (idx_dir / "mnist").rename(root / layout if layout != "." else root)
    assert_same(FILES.read(root), idx_splits)


@pytest.mark.parametrize(("old", "new"), [(".gz", ""), (".gz", ".gz"), ("-idx", ".idx")])
def test_unpacked_or_renamed(idx_dir, idx_splits, old, new):
    """Unpacked with the name changed; unpacked with the name kept; the dot that some unpackers write."""
    for path in (idx_dir / "mnist").iterdir():
        rewrite(path, gzip.decompress)
        path.rename(path.with_name(path.name.replace(old, new)))
    assert_same(FILES.read(idx_dir), idx_splits)


def test_nothing_there(tmp_path):
    assert FILES.read(tmp_path) is None


def test_some_files_missing(idx_dir):
    (idx_dir / "mnist" / f"{TRAIN_LABELS}.gz").unlink()
    with pytest.raises(DatasetNotFoundError, match=rf"mnist holds {TRAIN_IMAGES}.gz but not {TRAIN_LABELS} \("):
        FILES.read(idx_dir)


def damaged(idx_dir, name):
    path = idx_dir / "mnist" / f"{name}.gz"
    with pytest.raises(DatasetFileError) as raised:
        FILES.read(idx_dir)
    assert raised.value.path == path
    assert str(raised.value).startswith(f"{path}: ")
    return str(raised.value)


@pytest.mark.parametrize("num_bytes", [3, 12, 1000, -1])
def test_truncated_gzip(idx_dir, num_bytes):
    rewrite(idx_dir / "mnist" / f"{TRAIN_IMAGES}.gz", lambda content: content[:num_bytes])
    assert "truncated: its" in damaged(idx_dir, TRAIN_IMAGES)


def test_corrupt_gzip(idx_dir):
    rewrite(
        idx_dir / "mnist" / f"{TRAIN_IMAGES}.gz",
        lambda content: content[:5000] + bytes([content[5000] ^ 255]) + content[5001:],
    )
    assert "corrupt gzip" in damaged(idx_dir, TRAIN_IMAGES)


def test_a_web_page_instead_of_the_file(idx_dir):
    (idx_dir / "mnist" / f"{TRAIN_LABELS}.gz").write_text("<html>404</html>")
    assert "must start with 00 00 08 01, got 3c 68 74 6d" in damaged(idx_dir, TRAIN_LABELS)


def test_empty(idx_dir):
    (idx_dir / "mnist" / f"{TRAIN_LABELS}.gz").write_bytes(b"")
    assert "got nothing" in damaged(idx_dir, TRAIN_LABELS)


def test_images_where_labels_belong(idx_dir):
    folder = idx_dir / "mnist"
    (folder / f"{TRAIN_LABELS}.gz").write_bytes((folder / f"{TRAIN_IMAGES}.gz").read_bytes())
    assert "must start with 00 00 08 01, got 00 00 08 03" in damaged(idx_dir, TRAIN_LABELS)


def test_truncated_header(idx_dir):
    rewrite_unpacked(idx_dir / "mnist" / f"{TRAIN_IMAGES}.gz", lambda content: content[:10])
    assert "truncated: 10 bytes, the header alone has 16" in damaged(idx_dir, TRAIN_IMAGES)


@pytest.mark.parametrize(("change", "word"), [(-784, "truncated"), (-1, "truncated"), (1, "corrupt")])
def test_other_size_than_promised(idx_dir, change, word):
    resize = (lambda content: content[:change]) if change < 0 else (lambda content: content + b"\0")
    rewrite_unpacked(idx_dir / "mnist" / f"{TRAIN_IMAGES}.gz", resize)
    message = f"{word}: the header promises 60 x 28 x 28 = 47040 bytes, {47040 + change} follow"
    assert message in damaged(idx_dir, TRAIN_IMAGES)


def test_no_images(idx_dir):
    rewrite_unpacked(idx_dir / "mnist" / f"{TRAIN_IMAGES}.gz", lambda content: content[:4] + bytes(12))
    assert "promises 0 x 0 x 0" in damaged(idx_dir, TRAIN_IMAGES)


def test_wrong_image_size(idx_dir):
    def swap(content):
        return content[:8] + (14).to_bytes(4, "big") + (56).to_bytes(4, "big") + content[16:]

    rewrite_unpacked(idx_dir / "mnist" / f"{TRAIN_IMAGES}.gz", swap)
    assert "images must be 28 x 28, got 14 x 56" in damaged(idx_dir, TRAIN_IMAGES)


def test_label_out_of_range(idx_dir):
    rewrite_unpacked(idx_dir / "mnist" / f"{TRAIN_LABELS}.gz", lambda content: content[:13] + b"\x0a" + content[14:])
    assert "labels must be 0 to 9, got 10 at position 5" in damaged(idx_dir, TRAIN_LABELS)


def test_counts_differ(idx_dir):
    folder = idx_dir / "mnist"
    (folder / f"{TRAIN_LABELS}.gz").write_bytes((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())
    assert f"30 labels for the 60 images of {folder / TRAIN_IMAGES}.gz" in damaged(idx_dir, TRAIN_LABELS)


def test_the_files_of_a_look_alike_are_refused(idx_dir):
    labels = gzip.decompress((idx_dir / "mnist" / "t10k-labels-idx1-ubyte.gz").read_bytes())
    files = IdxFiles(folders=("mnist",), look_alikes={hashlib.sha256(labels).hexdigest(): "Fashion-MNIST"})
    with pytest.raises(DatasetFileError, match=r"t10k-labels.*: these are the labels of Fashion-MNIST"):
        files.read(idx_dir)


def test_mnist_and_fashion_mnist_know_each_other():
    mnist, fashion = SOURCES["mnist"].files.look_alikes, SOURCES["fashion-mnist"].files.look_alikes
    assert not mnist.keys() & fashion.keys()
    assert len(mnist) == len(fashion) == 1


def test_a_directory_that_may_not_be_read(idx_dir, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(DatasetFileError, match="cannot be read: Permission denied"):
        FILES.read(idx_dir)

import hashlib
import importlib.util
import lzma
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradorder_lab.data import SOURCES, embedded, load
from gradorder_lab.data.files import LabelledImages, TrainTest
from gradorder_lab.errors import DatasetError

SHIPPED = {
    "mnist": "919a1df3707524c31450a77b7c0b0d1ea173d3d0bde36c08848ef6bfbab15a92",
    "fashion-mnist": "e6eca51b06fbc69a86c0bf8d1a06d3e493707bd407ba4800d92a9a2e66d11511",
    "cifar10": "774957b1dd64568339e91990b51287474fa63c3b3a31eaf66cce1cb3ad82a91a",
}
FOLDER = files("gradorder_lab.data") / "embedded"


def test_exactly_these_are_shipped():
    """CIFAR-100 may not be."""
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.xz" for name in SHIPPED}
    assert {source.name for source in SOURCES.values() if source.is_embedded} == set(SHIPPED)
    assert sum(len(path.read_bytes()) for path in FOLDER.iterdir()) <= 9_000_000


@pytest.mark.parametrize("name", SHIPPED)
def test_notice_names_what_is_shipped(name):
    source = SOURCES[name]
    notice = (Path(__file__).parents[3] / "lab" / "NOTICE").read_text()
    sizes = f"{source.num_mini_train:,} training and {source.num_mini_test:,} test images"
    assert f"\n{source.title} (embedded/{name}.xz: {sizes})\n" in notice


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_file(name):
    assert hashlib.sha256((FOLDER / f"{name}.xz").read_bytes()).hexdigest() == SHIPPED[name]


@pytest.mark.parametrize(
    ("name", "num_train", "num_test", "shape"),
    [
        ("mnist", 5000, 1000, (1, 28, 28)),
        ("fashion-mnist", 5000, 1000, (1, 28, 28)),
        ("cifar10", 2000, 500, (3, 32, 32)),
    ],
)
def test_sizes_and_balance(name, num_train, num_test, shape):
    for split, num_examples in zip(load(name, size="mini", download=False), (num_train, num_test), strict=True):
        assert split.images.shape == (num_examples, *shape)
        assert split.labels.bincount().tolist() == [num_examples // 10] * 10


@pytest.mark.parametrize("name", SHIPPED)
def test_pixels_are_those_of_the_data_set(name):
    """Normalised with the complete data set's mean and deviation, a fair part of it has nearly 0 and 1."""
    train, _ = load(name, size="mini", download=False)
    inputs, _ = train.batch(torch.arange(len(train)))
    assert inputs.mean(dim=(0, 2, 3)).abs().max() < 0.03
    assert (inputs.std(dim=(0, 2, 3)) - 1).abs().max() < 0.03
    assert len(train.images.flatten(1).unique(dim=0)) == len(train)


@given(st.integers(1, 3), st.sampled_from([1, 3]), st.integers(1, 5), st.integers(1, 5), st.integers(0, 999))
def test_sums_undo_differences(num_images, num_channels, height, width, seed):
    shape = (num_images, num_channels, height, width)
    images = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    before = images.copy()
    assert np.array_equal(embedded.sums(embedded.differences(images)), images)
    assert np.array_equal(images, before)


def test_differences_of_a_smooth_photograph_are_zero():
    row, column = np.mgrid[:4, :5].astype(np.uint8)
    ramp = 7 * row + 3 * column + 250
    grey_ramp = np.stack([ramp + 9, ramp, ramp + 1])[None]
    inner = embedded.differences(grey_ramp)[..., 1:, 1:]
    assert not inner.any()


def small(source):
    return replace(source, num_mini_train=20, num_mini_test=10)


def random_splits(source):
    num_channels = len(source.mean)
    side = 28 if num_channels == 1 else 32
    images = torch.randint(256, (30, num_channels, side, side), dtype=torch.uint8)
    labels = torch.arange(30) % 10
    return TrainTest(LabelledImages(images[:20], labels[:20]), LabelledImages(images[20:], labels[20:]))


@pytest.mark.parametrize("name", SHIPPED)
def test_unpacks_what_was_packed(name):
    source = small(SOURCES[name])
    splits = random_splits(source)
    unpacked = embedded.unpacked(embedded.packed(splits), source)
    for got, expected in zip(unpacked, splits, strict=True):
        assert torch.equal(got.images, expected.images)
        assert torch.equal(got.labels, expected.labels)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:1000],
        lambda content: content[:5000] + bytes(10) + content[5010:],
        lambda content: b"",
        lambda content: lzma.compress(lzma.decompress(content)[:-1]),
    ],
)
def test_damaged_installation(tmp_path, monkeypatch, damage):
    (tmp_path / "embedded").mkdir()
    (tmp_path / "embedded" / "mnist.xz").write_bytes(damage((FOLDER / "mnist.xz").read_bytes()))
    monkeypatch.setattr(embedded, "files", lambda _: tmp_path)
    with pytest.raises(DatasetError, match=r"mnist.xz: the installed file is damaged, install gradorder again"):
        load("mnist", size="mini")


@pytest.fixture
def script(tmp_path, monkeypatch):
    path = Path(__file__).parents[3] / "scripts" / "embed_datasets.py"
    spec = importlib.util.spec_from_file_location("embed_datasets", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", tmp_path / "shipped")
    return module


def test_script_ships_the_first_of_each_class(script, idx_dir, small_mnist):
    splits = script.mini(small_mnist, idx_dir)
    script.write(small_mnist, splits)
    script.check(small_mnist, splits)
    shipped = embedded.unpacked((script.FOLDER / "mnist.xz").read_bytes(), small_mnist)
    for got, expected in zip(shipped, load("mnist", size="mini", data_dir=idx_dir), strict=True):
        assert torch.equal(got.images, expected.images)
        assert torch.equal(got.labels, expected.labels)
    splits.test.images[0, 0, 0, 0] ^= 1
    with pytest.raises(DatasetError, match=r"mnist.xz holds other examples than the original files"):
        script.check(small_mnist, splits)


def test_script_names_what_is_missing(script, tmp_path, small_mnist):
    with pytest.raises(DatasetError, match=f"--data: {tmp_path} does not hold MNIST"):
        script.mini(small_mnist, tmp_path)

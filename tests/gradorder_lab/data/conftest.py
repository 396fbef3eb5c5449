"""Small data sets in the original file formats, written by code that shares nothing with the readers."""

import gzip
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gradorder_lab.data import SOURCES
from gradorder_lab.data.cifar_binary import CifarFiles
from gradorder_lab.data.files import LabelledImages


def idx_bytes(tensor):
    content = bytearray([0, 0, 8, tensor.ndim])
    for size in tensor.shape:
        content += size.to_bytes(4, "big")
    return bytes(content) + bytes(tensor.flatten().tolist())


def cifar_bytes(images, *labels):
    records = zip(images.flatten(1).tolist(), *(values.tolist() for values in labels), strict=True)
    return b"".join(bytes(label_bytes) + bytes(pixels) for pixels, *label_bytes in records)


def random_split(num_examples, shape, num_classes, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (num_examples, *shape), generator=generator, dtype=torch.uint8)
    labels = torch.arange(num_examples) % num_classes
    return LabelledImages(images, labels[torch.randperm(num_examples, generator=generator)])


def write_idx(folder: Path, train, test, *, packed=True):
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, split in (("train", train), ("t10k", test)):
        for kind, tensor in (("images-idx3", split.images.squeeze(1)), ("labels-idx1", split.labels)):
            content = idx_bytes(tensor)
            name = f"{prefix}-{kind}-ubyte"
            (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)


@pytest.fixture
def idx_splits():
    return random_split(60, (1, 28, 28), 10, seed=1), random_split(30, (1, 28, 28), 10, seed=2)


@pytest.fixture
def idx_dir(tmp_path, idx_splits):
    """A data directory with a small data set in the folder mnist."""
    write_idx(tmp_path / "data" / "mnist", *idx_splits)
    return tmp_path / "data"


@pytest.fixture
def small_mnist(monkeypatch):
    """MNIST as a source whose complete data set is `idx_splits`."""
    source = replace(SOURCES["mnist"], num_train=60, num_test=30, num_mini_train=20, num_mini_test=10)
    monkeypatch.setitem(SOURCES, "mnist", source)
    return source


@pytest.fixture
def cifar_files():
    """CIFAR-100's record layout in CIFAR-10's number of files, four records each."""
    return CifarFiles(
        folders=("cifar-bin", "."),
        archive="cifar-binary.tar.gz",
        train_files=("batch_1.bin", "batch_2.bin"),
        test_file="test.bin",
        label_ranges=(20, 100),
        records_per_file=4,
    )


@pytest.fixture
def cifar_records(cifar_files):
    """File name -> (split, bytes)."""
    records = {}
    for seed, name in enumerate((*cifar_files.train_files, cifar_files.test_file)):
        split = random_split(4, (3, 32, 32), 4, seed)
        split = LabelledImages(split.images, torch.tensor(random.Random(seed).sample(range(100), 4)))
        records[name] = split, cifar_bytes(split.images, split.labels // 5, split.labels)
    return records


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch, tmp_path):
    """No data directory and no cache of whoever runs the tests."""
    import pooch  # noqa: PLC0415

    monkeypatch.delenv("GRADORDER_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)

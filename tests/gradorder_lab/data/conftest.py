"""Small data sets in the original file formats, written by code that shares nothing with the readers."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gradorder_lab.data import SOURCES
from gradorder_lab.data.original_files import LabelledImages


def idx_bytes(tensor):
    content = bytearray([0, 0, 8, tensor.ndim])
    for size in tensor.shape:
        content += size.to_bytes(4, "big")
    return bytes(content) + bytes(tensor.flatten().tolist())


def random_split(num_examples, shape, num_classes, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (num_examples, *shape), generator=generator, dtype=torch.uint8)
    labels = torch.arange(num_examples) % num_classes
    return LabelledImages(images, labels[torch.randperm(num_examples, generator=generator)])


def write_idx(folder: Path, train, test):
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, split in (("train", train), ("t10k", test)):
        for kind, tensor in (("images-idx3", split.images.squeeze(1)), ("labels-idx1", split.labels)):
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(tensor)))


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
    """MNIST as a source whose complete data set is `idx_splits`; no part of it is shipped."""
    source = replace(
        SOURCES["mnist"], num_train=60, num_test=30, num_mini_train=20, num_mini_test=10, is_embedded=False
    )
    monkeypatch.setitem(SOURCES, "mnist", source)
    return source


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch, tmp_path):
    """No data directory and no cache of whoever runs the tests."""
    import pooch  # noqa: PLC0415

    monkeypatch.delenv("GRADORDER_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)

"""The parts of data sets that come with the package."""

from importlib.resources import files
from pathlib import Path

import pytest
import torch

from gradorder_lab.data import SOURCES, load, loading

SHIPPED = ("mnist", "fashion-mnist")


def test_only_data_with_a_licence_is_shipped():
    folder = files("gradorder_lab.data") / "shipped"
    assert {path.name for path in folder.iterdir()} == {f"{name}.npz" for name in SHIPPED}
    assert {source.name for source in SOURCES.values() if source.is_embedded} == set(SHIPPED)
    notice = (Path(__file__).parents[3] / "lab" / "NOTICE").read_text()
    assert all(f"shipped/{name}.npz" in notice for name in SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_part_is_balanced_and_looks_like_the_whole(name, monkeypatch):
    """Normalised with the complete data set's mean and deviation, a fair part of it has nearly 0 and 1."""
    monkeypatch.setattr(loading, "fetch", lambda *_: pytest.fail("no network is needed"))
    train, test = load(name, size="mini")
    assert (train.images.shape, test.images.shape) == ((5000, 1, 28, 28), (1000, 1, 28, 28))
    assert (train.labels.bincount().tolist(), test.labels.bincount().tolist()) == ([500] * 10, [100] * 10)
    inputs, _ = train.batch(torch.arange(len(train)))
    assert abs(inputs.mean()) < 0.03
    assert abs(inputs.std() - 1) < 0.03
    assert len(train.images.flatten(1).unique(dim=0)) == len(train)

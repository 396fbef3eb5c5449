"""In the hand: a loader, what the sampler says of itself, the labels of a data set, weights where the losses are."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import gradorder as go

SIZE, BATCH = 24, 4
SCORES = torch.arange(float(SIZE))


class Labelled(Dataset):
    """Knows the label of every example, under a name of its own."""

    def __init__(self, name=None, labels=None, size=SIZE):
        self.size = size
        if name is not None:
            setattr(self, name, labels)

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(SIZE))


def new(data=SIZE, **settings):
    return go.OrderedSampler(data, BATCH, **{"ordering": go.Descending(), **settings})


# ------------------------------------------------------------------------------------------------ loader


@pytest.mark.parametrize("num_workers", [0, 2])
def test_its_loader_gives_the_order_in_its_batches(num_workers):
    data = Labelled()
    sampler = new(data, keep=0.75)
    sampler.set_epoch(0, scores=SCORES)
    expected = [list(range(first, first - BATCH, -1)) for first in (23, 19, 15, 11)] + [[7, 6]]
    for loader in (sampler.loader(data, num_workers=num_workers), sampler.loader(num_workers=num_workers)):
        assert isinstance(loader, DataLoader)
        assert loader.sampler is sampler
        assert loader.dataset is data
        assert [batch.tolist() for batch in loader] == expected


def test_the_loaders_own_settings_are_passed_on():
    loader = new().loader(range(SIZE), collate_fn=sum, pin_memory=False, in_order=True)
    assert loader.collate_fn is sum


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 8},
        {"shuffle": True},
        {"shuffle": False},
        {"sampler": None},
        {"batch_sampler": None},
        {"drop_last": True},
    ],
    ids=str,
)
def test_what_the_sampler_decides_is_refused(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"^{name} must not be given"):
        new().loader(range(SIZE), **settings)


def test_batches_out_of_order_are_refused():
    with pytest.raises(ValueError, match="in_order=False"):
        new().loader(range(SIZE), num_workers=2, in_order=False)


def test_other_data_are_refused():
    with pytest.raises(ValueError, match=r"dataset.*23"):
        new().loader(range(23))
    with pytest.raises(go.IterableDatasetError, match="dataset must be map-style"):
        new().loader(Stream())


# ------------------------------------------------------------------------------------------------ repr


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, ["24", "batches of 4", "Descending()", "'contiguous'", "keep=1", "seed=0"]),
        ({"keep": 0.55, "start_epoch": 3, "seed": 7}, ["keep=0.55", "epoch 3", "seed=7"]),
        ({"num_replicas": 2, "rank": 1}, ["2 processes"]),
        ({"layout": "dealt", "labels": [0, 1, 2] * 8}, ["'dealt'", "3 classes"]),
    ],
    ids=["plain", "kept", "processes", "labels"],
)
def test_it_says_what_it_will_do(settings, parts):
    said = repr(new(**settings))
    for part in parts:
        assert part in said


# ------------------------------------------------------------------------------------------------ labels

LABELS = [i * i % 3 for i in range(SIZE)]  # two classes, one twice as large


@pytest.mark.parametrize("form", [list, np.array, torch.tensor, tuple], ids=["list", "array", "tensor", "tuple"])
@pytest.mark.parametrize("name", ["targets", "labels"])
def test_the_labels_that_the_data_set_has(name, form):
    found, passed = new(Labelled(name, form(LABELS)), labels=True), new(labels=LABELS)
    assert f"dataset.{name}" in repr(found)
    for sampler in (found, passed):
        sampler.set_epoch(0, scores=SCORES)
    assert list(found) == list(passed)
    assert list(found) != list(range(SIZE))[::-1]


def test_labels_are_never_guessed():
    unlabelled = (SIZE, list(range(SIZE)), Labelled("y", LABELS), TensorDataset(torch.zeros(SIZE), torch.rand(SIZE)))
    for data in (*unlabelled, Subset(TensorDataset(torch.tensor(LABELS)), range(8))):
        with pytest.raises(ValueError, match="labels=True"):
            new(data, labels=True)


def test_labels_that_do_not_fit_name_where_they_came_from():
    with pytest.raises(ValueError, match=r"targets.*\(3,\)"):
        new(Labelled("targets", [0, 1, 2]), labels=True)
    with pytest.raises(ValueError, match=r"labels.*float64"):
        new(Labelled("labels", [0.5] * SIZE), labels=True)


# ------------------------------------------------------------------------------------------------ weigh


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_losses_are_weighed_where_they_are(dtype):
    sampler = new(ordering=go.PlackettLuce(unbiased=True), keep=0.5)
    sampler.set_epoch(0, scores=SCORES + 1)
    assert sampler.is_weighted
    for batch in sampler.loader():
        losses = batch.to(dtype).requires_grad_()
        weighed = sampler.weigh(losses)
        assert weighed.dtype == dtype
        assert torch.equal(weighed, batch.to(dtype) * sampler.weights.to(dtype))
        weighed.sum().backward()
        assert torch.equal(losses.grad, sampler.weights.to(dtype))
        sampler.step(losses.detach().float())


def test_the_device_is_that_of_the_losses():
    sampler = new(ordering=go.PlackettLuce(unbiased=True), keep=0.5)
    sampler.set_epoch(0, scores=SCORES + 1)
    next(iter(sampler))
    assert sampler.weigh(torch.ones(BATCH, device="meta")).device.type == "meta"


def test_without_weights_losses_stay_as_they_are():
    sampler = new()
    sampler.set_epoch(0, scores=SCORES)
    next(iter(sampler))
    assert not sampler.is_weighted
    assert sampler.weigh(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_losses_of_another_batch_are_refused():
    sampler = new()
    next(iter(sampler))
    with pytest.raises(ValueError, match=r"losses.*\(3,\)"):
        sampler.weigh(torch.ones(3))
    with pytest.raises(ValueError, match='reduction="none"'):
        sampler.weigh(torch.tensor(0.5))

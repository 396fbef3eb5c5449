import pytest
import torch

from gradorder_lab.data import terrain
from gradorder_lab.data.examples import LabelledTensors, Subset


@pytest.fixture
def whole():
    labels = torch.arange(2000) % 4
    return LabelledTensors(torch.arange(2000.0).view(-1, 1), labels)


def test_held_out_and_kept_are_all(whole):
    kept, held = Subset.of(whole).without(300)
    inputs = [part.batch(torch.arange(len(part)))[0].flatten().tolist() for part in (kept, held)]
    assert len(inputs[1]) == 300
    assert sorted(inputs[0] + inputs[1]) == list(range(2000))


def test_labels_go_with_their_inputs(whole):
    kept, _ = Subset.of(whole).without(300)
    inputs, labels = kept.batch([5, 17, 1200])
    assert torch.equal(labels, inputs.flatten().long() % 4)
    assert torch.equal(kept.labels[[5, 17, 1200]], labels)


def test_wrong_labels_are_wrong(whole):
    part = Subset.of(whole).with_wrong_labels(0.2, 4, torch.Generator().manual_seed(0))
    is_wrong = part.labels != whole.labels
    assert 0.17 < is_wrong.float().mean() < 0.23
    _, labels = part.batch(torch.arange(2000))
    assert torch.equal(labels, part.labels)
    shifts = ((part.labels - whole.labels) % 4)[is_wrong].bincount(minlength=4)
    assert shifts[0] == 0
    assert shifts[1:].min() > 80


def test_rare_classes_fall_off_evenly(whole):
    part = Subset.of(whole).with_rare_classes(0.125, 4, torch.Generator().manual_seed(0))
    counts = part.labels.bincount()
    assert counts[0] == 500
    for count, expected in zip(counts[1:], (250, 125, 62.5), strict=True):
        assert abs(count - expected) < 4 * expected**0.5
    inputs, labels = part.batch(torch.arange(len(part)))
    assert torch.equal(labels, inputs.flatten().long() % 4)


def test_terrain_is_the_same_every_time_and_uneven():
    table, labels = terrain.make(5000)
    again = terrain.make(5000)
    assert torch.equal(table, again[0])
    assert torch.equal(labels, again[1])
    assert table.shape == (5000, terrain.NUM_COLUMNS)
    counts = labels.bincount(minlength=terrain.NUM_CLASSES)
    assert counts.min() > 0
    assert counts.max() > 8 * counts.min()
    assert torch.equal(table[:, 10:14].sum(1), torch.ones(5000))
    assert torch.equal(table[:, 14:].sum(1), torch.ones(5000))

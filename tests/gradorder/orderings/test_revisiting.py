import math

import numpy as np
import pytest
import torch
from asking import order_of
from hypothesis import example, given
from hypothesis import strategies as st

import gradorder as go


def order(ordering, scores, epoch, seed=0, classes=None):
    return order_of(ordering, scores, epoch=epoch, seed=seed, classes=classes).indices.tolist()


def visits(sampler, num_epochs, scores):
    """The sets of examples of each epoch."""
    result = []
    for epoch in range(num_epochs):
        sampler.set_epoch(epoch, scores=scores)
        result.append(set(sampler))
    return result


def longest_absence(epochs, num_examples):
    """The largest number of consecutive epochs without some example."""
    longest, absent = 0, [0] * num_examples
    for epoch in epochs:
        absent = [0 if i in epoch else absent[i] + 1 for i in range(num_examples)]
        longest = max(longest, *absent)
    return longest


@pytest.mark.parametrize("inner", [go.Descending(), go.PlackettLuce(), go.Shuffled(), go.Sequential()], ids=str)
def test_a_part_in_front_and_both_in_the_inner_order(inner):
    scores = torch.rand(21)
    parts = []
    for epoch in range(4):
        plain, revisited = order(inner, scores, epoch), order(go.Revisiting(inner, every=4), scores, epoch)
        front = 5 + (epoch == 0)  # 21 examples in 4 parts: 6, 5, 5, 5
        assert revisited[:front] == [i for i in plain if i in revisited[:front]]
        assert revisited[front:] == [i for i in plain if i not in revisited[:front]]
        parts.append(set(revisited[:front]))
    assert set.union(*parts) == set(range(21))
    assert sum(map(len, parts)) == 21


def test_the_parts_are_the_same_in_every_run_and_neighbours_are_not_together():
    ordering = go.Revisiting(go.Sequential(), every=5)
    first = order(ordering, torch.ones(100), 0)[:20]
    assert first == order(ordering, torch.ones(100), 5, seed=3)[:20]
    assert len(set(np.diff(first))) > 3
    assert sum(np.diff(first) == 1) < 10


@given(
    num_examples=st.integers(1, 40),
    every=st.integers(2, 9),
    num_classes=st.integers(0, 6),
    extra=st.sampled_from([0.0, 0.0, 0.1, 0.3]),
    batch_size=st.integers(1, 9),
)
@example(num_examples=9, every=3, num_classes=0, extra=0.0, batch_size=4)
@example(num_examples=31, every=8, num_classes=6, extra=0.0, batch_size=4)  # classes smaller than every
def test_no_example_is_absent_for_long(num_examples, every, num_classes, extra, batch_size):
    labels = np.random.default_rng(0).integers(num_classes, size=num_examples) ** 2 if num_classes else None
    sampler = go.OrderedSampler(
        num_examples,
        batch_size,
        ordering=go.Revisiting(go.Descending(), every),
        keep=min(1.0, 1 / every + extra),
        labels=labels,
    )
    epochs = visits(sampler, 3 * every, torch.arange(float(num_examples)))
    assert longest_absence(epochs, num_examples) <= every - 1


def test_a_smaller_keep_is_refused():
    ordering = go.Revisiting(go.Descending(), every=4)
    go.OrderedSampler(20, 4, ordering=ordering, keep=0.25)
    with pytest.raises(ValueError, match=r"keep.*0.2"):
        go.OrderedSampler(20, 4, ordering=ordering, keep=0.2)
    with pytest.raises(ValueError, match=r"keep.*0.3333"):  # three pairs of epochs
        go.OrderedSampler(20, 4, ordering=go.FlipFlop(go.Revisiting(go.Descending(), 5)), keep=0.3)
    with pytest.raises(ValueError, match=r"keep.*0.16"):
        go.OrderedSampler(20, 4, ordering=ordering, keep=lambda epoch: 0.5 / (1 + epoch), epochs=3)


def test_it_does_not_revisit_twice():
    with pytest.raises(ValueError, match="inner"):
        go.Revisiting(go.Revisiting(go.Shuffled()))


# ------------------------------------------------------------------------------------------------ weights

SCORES = torch.tensor([1.0, 3.0, 1.5, 0.8, 2.0, 1.0, 2.5, 1.2, 0.7, 1.1])
LABELS = [0, 0, 0, 1, 0, 1, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("settings", "epoch"), [({}, 0), ({"labels": LABELS}, 1), ({"layout": "shuffled"}, 2)], ids=str
)
def test_every_example_adds_its_share_on_average(settings, epoch):
    added = torch.zeros(300, 10, dtype=torch.float64)
    for seed, row in enumerate(added):
        sampler = go.OrderedSampler(
            10, 10, ordering=go.Revisiting(go.PlackettLuce(unbiased=True), 5), keep=0.55, seed=seed, **settings
        )
        sampler.set_epoch(epoch, scores=SCORES)
        row[list(sampler)] = sampler.weights.double() * 10 / len(sampler)
    mean, error = added.mean(0), added.std(0) / math.sqrt(len(added))
    assert ((mean - 1).abs() <= 4 * error + 1e-6).all(), (mean, error)
    assert (error < 0.2).all()
    assert (error < 1e-6).sum() == 2  # the forced ones are certain, and exact


def test_the_weights_of_zeros_count_the_forced_ones_apart():
    scores = torch.tensor([1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    added = torch.zeros(300, 8, dtype=torch.float64)
    for seed, row in enumerate(added):
        sampler = go.OrderedSampler(
            8, 8, ordering=go.Revisiting(go.PlackettLuce(unbiased=True), 4), keep=0.75, seed=seed
        )
        sampler.set_epoch(1, scores=scores)
        row[list(sampler)] = sampler.weights.double() * 8 / 6
    mean, error = added.mean(0), added.std(0) / math.sqrt(len(added))
    assert ((mean - 1).abs() <= 4 * error + 1e-6).all(), (mean, error)


def test_complete_epochs_weigh_one():
    sampler = go.OrderedSampler(10, 10, ordering=go.Revisiting(go.PlackettLuce(unbiased=True)))
    sampler.set_epoch(0, scores=SCORES)
    assert sampler.weights.tolist() == [1.0] * 10


def test_without_room_for_chance_the_epoch_is_complete():
    """No weight could stand for the examples that are skipped."""
    ordering = go.Revisiting(go.PlackettLuce(unbiased=True), 5)
    sampler = go.OrderedSampler(10, 10, ordering=ordering, keep=0.2)
    sampler.set_epoch(0, scores=SCORES)
    assert sorted(sampler) == list(range(10))
    assert not sampler.is_weighted
    alone = go.OrderedSampler(10, 10, ordering=ordering, keep=0.5, labels=[0] * 9 + [1])
    alone.set_epoch(0, scores=SCORES)  # a class of one is always there
    assert alone.is_weighted
    assert len(alone) == 6


def test_unweighted_inside_is_unweighted():
    ordering = go.Revisiting(go.PlackettLuce())
    assert order_of(ordering, SCORES, keep=0.5).weights is None

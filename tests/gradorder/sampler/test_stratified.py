import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import gradorder as go
from gradorder.sampler.labels import Classes
from gradorder.sampler.stratified import LAYOUTS, lay_out


@st.composite
def problems(draw):
    """An order, labels and a batch size; few or many classes, equal or not."""
    num_classes = draw(st.integers(1, 12))
    counts = draw(st.lists(st.integers(1, 40), min_size=num_classes, max_size=num_classes))
    labels = np.repeat(np.arange(num_classes), counts)
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = generator.permutation(labels)
    order = generator.permutation(len(labels))
    return order, labels, draw(st.integers(1, len(labels) + 5))


def batches(sequence, batch_size):
    return [sequence[i : i + batch_size] for i in range(0, len(sequence), batch_size)]


def dealt_slowly(order, batch_size):
    """Cards dealt one at a time: each goes to the next batch in the round that is not full."""
    sizes = [len(batch) for batch in batches(order, batch_size)]
    hands = [[] for _ in sizes]
    turn = 0
    for card in order:
        while len(hands[turn % len(hands)]) == sizes[turn % len(hands)]:
            turn += 1
        hands[turn % len(hands)].append(card)
        turn += 1
    return [card for hand in hands for card in hand]


@given(problem=problems())
def test_contiguous_without_classes_is_the_order_itself(problem):
    order, _, batch_size = problem
    assert lay_out(order, batch_size).tolist() == order.tolist()


@given(problem=problems())
def test_dealt_without_classes_is_dealing_cards(problem):
    order, _, batch_size = problem
    assert lay_out(order, batch_size, layout="dealt").tolist() == dealt_slowly(order, batch_size)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("backwards", [False, True])
@given(problem=problems())
def test_every_class_has_its_share_of_every_batch_to_within_one(layout, backwards, problem):
    order, labels, batch_size = problem
    sequence = lay_out(order, batch_size, layout=layout, classes=labels[order], backwards=backwards)
    assert sorted(sequence) == sorted(order)
    counts = np.bincount(labels)
    for batch in batches(sequence, batch_size):
        share = counts * len(batch) / len(labels)
        assert (np.abs(np.bincount(labels[batch], minlength=len(counts)) - share) < 1).all()


@pytest.mark.parametrize("layout", ["contiguous", "shuffled"])
@given(problem=problems())
def test_contiguous_fills_each_class_in_its_order(layout, problem):
    order, labels, batch_size = problem
    sequence = lay_out(order, batch_size, layout=layout, classes=labels[order])
    for label in np.unique(labels):
        assert sequence[labels[sequence] == label].tolist() == order[labels[order] == label].tolist()


@given(problem=problems())
def test_dealt_deals_each_class_round_by_round(problem):
    order, labels, batch_size = problem
    sequence = lay_out(order, batch_size, layout="dealt", classes=labels[order])
    for label in np.unique(labels):
        hands = [batch[labels[batch] == label].tolist() for batch in batches(sequence, batch_size)]
        rounds = [hand[turn] for turn in range(batch_size) for hand in hands if len(hand) > turn]
        assert rounds == order[labels[order] == label].tolist()


@given(
    num_classes=st.integers(2, 12),
    per_class=st.integers(1, 30),
    batch_size=st.integers(2, 80),
    layout=st.sampled_from(LAYOUTS),
)
@example(num_classes=10, per_class=100, batch_size=128, layout="contiguous")
def test_equal_classes_alternate(num_classes, per_class, batch_size, layout):
    labels = np.repeat(np.arange(num_classes), per_class)
    order = np.random.default_rng(0).permutation(len(labels))
    sequence = lay_out(order, batch_size, layout=layout, classes=labels[order])
    for batch in batches(sequence, batch_size):
        in_full_rounds = len(batch) - len(batch) % num_classes
        for window in range(in_full_rounds - num_classes + 1):
            assert len(set(labels[batch[window : window + num_classes]])) == num_classes
        assert all(labels[a] != labels[b] for a, b in pairwise(batch))


def test_a_rare_class_is_spread_over_the_epoch_and_the_batch():
    labels = np.zeros(10_000, dtype=int)
    labels[:50] = 1
    sequence = lay_out(np.arange(10_000), 100, classes=labels)
    where = np.flatnonzero([labels[batch].any() for batch in batches(sequence, 100)])
    assert len(where) == 50
    assert np.diff([-1, *where, 100]).max() <= 3
    many = np.repeat(np.arange(101), [9000] + [10] * 100)
    order = np.random.default_rng(1).permutation(10_000)
    sequence = lay_out(order, 100, classes=many[order])
    for batch in batches(sequence, 100):
        assert 3 <= (many[batch[:50]] > 0).sum() <= 7  # of ten


@given(problem=problems(), keep=st.floats(0.01, 1))
def test_keep_takes_the_first_of_each_class(problem, keep):
    order, labels, _ = problem
    classes = Classes.of(labels, None, len(labels))
    request = go.Request(
        0, len(order), torch.Generator(), classes=classes.numbers, class_counts=classes.counts, keep=keep
    )
    kept = request.kept(torch.from_numpy(order)).numpy()
    assert kept.tolist() == [i for i in order if i in set(kept)]
    for label in np.unique(labels):
        expected = order[labels[order] == label]
        expected = expected[: max(1, math.ceil(Fraction(str(keep)) * len(expected)))]
        assert kept[labels[kept] == label].tolist() == expected.tolist()


@given(problem=problems(), layout=st.sampled_from(LAYOUTS), has_classes=st.booleans())
def test_reversed_is_the_exact_reverse_where_all_batches_are_full(problem, layout, has_classes):
    order, labels, batch_size = problem
    classes = labels[order] if has_classes else None
    forward = lay_out(order, batch_size, layout=layout, classes=classes)
    backward = lay_out(order, batch_size, layout=layout, classes=classes, backwards=True)
    if len(order) % batch_size == 0:
        assert backward.tolist() == forward[::-1].tolist()
    if not has_classes and layout != "dealt":
        assert backward.tolist() == order[::-1].tolist()


@pytest.mark.parametrize(
    "labels",
    [
        [5, -3, 5, 10**12],
        ["b", "a", "b", "c"],
        [True, False, True, True],
        torch.tensor([1, 0, 1, 3]),
        np.array([200, 100, 200, 7], dtype=np.uint8),
    ],
    ids=str,
)
def test_any_labels_become_classes(labels):
    classes = Classes.of(labels, None, 4)
    values = np.asarray(labels)
    assert sum(classes.counts) == 4
    assert classes.source == "labels"
    for number, count in enumerate(classes.counts):
        assert int((classes.numbers == number).sum()) == count > 0
    for i in range(4):
        for j in range(4):
            assert (classes.numbers[i] == classes.numbers[j]) == (values[i] == values[j])

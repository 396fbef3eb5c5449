"""A request in, an order out: what either may hold, and what is refused."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gradorder as go
from gradorder.orderings.ordering import checked_order

SIZE = 6


def request(**settings):
    return go.Request(**{"epoch": 0, "num_examples": SIZE, "generator": torch.Generator(), **settings})


@dataclass(frozen=True)
class Answers(go.Ordering):
    """Gives whatever it is told to."""

    answer: Any
    needs_scores = False

    def order(self, request):
        return self.answer


def checked(answer, **settings):
    return checked_order(Answers(answer), request(**settings), answer)


# ------------------------------------------------------------------------------------------------ Request


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": -1}, "epoch.*-1"),
        ({"epoch": 0.5}, "epoch.*0.5"),
        ({"num_examples": 0}, "num_examples.*0"),
        ({"num_examples": 2.0}, "num_examples.*2.0"),
        ({"scores": torch.ones(5)}, "scores.*5"),
        ({"scores": torch.ones(6, 1)}, r"scores .*one-dimensional .*\(6, 1\)"),
        ({"scores": torch.tensor(1.0)}, 'reduction="none"'),
        ({"scores": torch.tensor([math.nan] * 6)}, "6 of 6 are NaN or infinite"),
        ({"scores": torch.tensor([1.0] * 5 + [math.inf])}, r"1 of 6 are NaN or infinite \(examples 5\)"),
        ({"keep": 0.0}, r"keep.*0.0"),
        ({"keep": 1.5}, r"keep.*1.5"),
        ({"keep": True}, r"keep.*True"),
        ({"known": torch.ones(5, dtype=torch.bool)}, r"known.*\(5,\)"),
        ({"known": torch.ones(6, 1, dtype=torch.bool)}, r"known.*\(6, 1\)"),
        ({"known": torch.ones(6)}, "known.*torch.float32"),
        ({"classes": torch.zeros(7, dtype=torch.int64)}, r"classes.*\(7,\)"),
    ],
    ids=str,
)
def test_bad_requests_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        request(**settings)


def test_a_request_changed_is_checked_again():
    with pytest.raises(ValueError, match=r"scores.*2"):
        replace(request(), scores=torch.ones(2))


def test_scores_are_detached_and_needed_ones_must_be_there():
    asked = request(scores=torch.ones(SIZE, requires_grad=True))
    assert not asked.scores.requires_grad
    assert asked.required_scores is asked.scores
    with pytest.raises(ValueError, match=r"scores.*None"):
        _ = request().required_scores


def test_without_classes_all_are_one_class():
    asked = request(keep=0.5)
    assert (asked.counts, asked.kept_counts, asked.num_kept) == ((SIZE,), (3,), 3)
    assert asked.classes_of(torch.tensor([4, 0])).tolist() == [0, 0]
    assert request().num_kept == SIZE


def test_an_empty_class_keeps_nothing_and_a_small_one_keeps_one():
    asked = request(classes=torch.tensor([0, 2, 2, 2, 2, 2]), keep=0.1)
    assert asked.counts == (1, 0, 5)
    assert asked.kept_counts == (1, 0, 1)
    assert asked.classes_of(torch.tensor([1, 0])).tolist() == [2, 0]


def kept_slowly(order, known, classes, keep):
    """What was never scored, then the others; of each class the first ceil(keep * n), one example at a time."""
    order = [i for i in order if not known[i]] + [i for i in order if known[i]]
    left = {}
    for number in set(classes):
        count = classes.count(number)
        left[number] = count if keep is None else max(1, math.ceil(Fraction(str(keep)) * count))
    kept = []
    for i in order:
        if left[classes[i]] > 0:
            left[classes[i]] -= 1
            kept.append(i)
    return kept


@st.composite
def questions(draw, *, whole):
    """An order of all examples, or of some of them, and what a request may say about them."""
    size = draw(st.integers(1, 25))
    order = draw(st.permutations(range(size)))
    if not whole:
        order = order[: draw(st.integers(1, size))]
    known = draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size))
    classes = draw(st.none() | st.lists(st.integers(0, 4), min_size=size, max_size=size))
    keep = draw(st.none() | st.decimals("0.01", 1, places=2).map(float))
    return size, order, known, classes, keep


def assert_kept_is_the_slow_one(question):
    size, order, known, classes, keep = question
    asked = request(
        num_examples=size,
        known=None if known is None else torch.tensor(known),
        classes=None if classes is None else torch.tensor(classes),
        keep=keep,
    )
    expected = kept_slowly(order, known or [True] * size, classes or [0] * size, keep)
    assert asked.kept(torch.tensor(order)).tolist() == expected
    if len(order) == size:
        assert asked.num_kept == len(expected)


@given(question=questions(whole=True))
def test_kept_is_what_the_slow_rule_keeps(question):
    assert_kept_is_the_slow_one(question)


@given(question=questions(whole=False))
def test_kept_of_some_examples_is_what_the_slow_rule_keeps(question):
    """For a rule that leaves out examples by itself, before it asks what is kept of them."""
    assert_kept_is_the_slow_one(question)


def test_counts_that_are_known_are_used():
    classes = torch.tensor([0, 1, 1, 0, 1, 1], dtype=torch.uint8)
    order = torch.tensor([5, 3, 1, 0, 2, 4])
    counted, told = (request(classes=classes, class_counts=counts, keep=0.5) for counts in (None, (2, 4)))
    assert counted.counts == told.counts == (2, 4)
    assert counted.kept(order).tolist() == told.kept(order).tolist() == [5, 3, 1]


# ------------------------------------------------------------------------------------------------ Order

WHOLE = torch.arange(SIZE)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (go.Order(WHOLE[:0]), r"1 to 6 .*\(0,\)"),
        (go.Order(torch.arange(7)), r"1 to 6 .*\(7,\)"),
        (go.Order(WHOLE.reshape(6, 1)), r"1 to 6 .*\(6, 1\)"),
        (go.Order(WHOLE.float()), "must return 1 to 6 .* of torch.float32"),
        (go.Order(WHOLE.int()), "must return 1 to 6 .* of torch.int32"),
        (go.Order(WHOLE + 1), "must return 1 to 6 .* got indices from 1 to 6"),
        (go.Order(WHOLE - 1), "must return 1 to 6 .* got indices from -1 to 4"),
        (go.Order(torch.tensor([0, 1, 2, 3, 4, 4])), r"twice"),
        (go.Order(torch.tensor([0, 1, 2, 3, 4, 6]), repeats=True), "got indices from 0 to 6"),
        (go.Order(WHOLE, torch.ones(5)), r"6 .*\(5,\)"),
        (go.Order(WHOLE, torch.ones(6, 1)), r"6 .*\(6, 1\)"),
        (go.Order(WHOLE, torch.tensor(1.0)), r"6 .*\(\)"),
        (go.Order(WHOLE, torch.tensor([1, 1, 1, 1, 1, math.nan])), "from nan"),
        (go.Order(WHOLE, torch.tensor([1, 1, 1, 1, 1, math.inf])), "from 1.0 to inf"),
        (go.Order(WHOLE, torch.tensor([1, 1, 1, 1, 1, -0.5])), "from -0.5 to 1.0"),
    ],
    ids=str,
)
def test_bad_orders_are_refused_and_the_rule_is_named(order, message):
    with pytest.raises(ValueError, match=message) as caught:
        checked(order)
    assert str(caught.value).startswith("Answers(")


@pytest.mark.parametrize("answer", [None, WHOLE, [0, 1, 2], (WHOLE, None)], ids=str)
def test_what_is_no_order_is_refused(answer):
    with pytest.raises(TypeError, match="an Order"):
        checked(answer)


def test_a_rule_may_return_fewer_examples():
    some = go.Order(torch.tensor([4, 1]))
    assert checked(some) is some


def test_an_order_of_all_examples_is_cut_to_what_is_kept():
    assert checked(go.Order(WHOLE.flip(0)), keep=0.5).indices.tolist() == [5, 4, 3]
    with pytest.raises(ValueError, match="at most 3"):
        checked(go.Order(WHOLE, torch.ones(SIZE)), keep=0.5)


def test_good_orders_pass_as_they_are():
    for order in (
        go.Order(WHOLE),
        go.Order(WHOLE.flip(0), torch.zeros(SIZE), backwards=True),
        go.Order(torch.zeros(SIZE, dtype=torch.int64), torch.ones(SIZE, dtype=torch.int64), repeats=True),
    ):
        assert checked(order) is order


def test_without_scores_a_rule_that_needs_them_is_random_and_complete_whatever_is_kept():
    asked = request(num_examples=30, keep=0.5, generator=torch.Generator().manual_seed(3))
    order = go.Descending().start(asked).order(asked)
    assert order.indices.tolist() == torch.randperm(30, generator=torch.Generator().manual_seed(3)).tolist()
    assert order.weights is None


def test_the_call_plays_backwards_what_is_to_be_played_backwards():
    order = Answers(go.Order(WHOLE, backwards=True))
    assert order(None, epoch=0, generator=torch.Generator(), num_examples=SIZE).tolist() == [5, 4, 3, 2, 1, 0]


# ------------------------------------------------------------------------------------------------ turns


@given(size=st.integers(1, 40), every=st.integers(2, 9), shared=st.integers(1, 3), num_classes=st.integers(0, 4))
def test_every_example_has_its_turn_in_time(size, every, shared, num_classes):
    classes = torch.arange(size) % num_classes if num_classes else None
    turns = [
        request(epoch=epoch - epoch % shared, num_examples=size, classes=classes, epochs_per_order=shared).in_turn(
            every
        )
        for epoch in range(4 * every)
    ]
    for start in range(3 * every):
        assert torch.stack(turns[start : start + every]).any(0).all()
    if shared == 1 and num_classes:
        for each in range(num_classes):
            counts = [int(turn[classes == each].sum()) for turn in turns]
            assert max(counts) - min(counts) <= 1


def test_rows_with_a_period_do_not_have_their_turn_together():
    """Four answers per question: each turn holds about a quarter of each kind."""
    turn = request(num_examples=4000).in_turn(4)
    assert all(abs(int(turn[kind::4].sum()) - 250) < 60 for kind in range(4))

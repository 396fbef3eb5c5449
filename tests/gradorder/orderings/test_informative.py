"""Informative: examples with score zero wait, the others take their places, and everything comes back in time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gradorder as go
from gradorder.orderings.ordering import epoch_generator


def ordered(scores, *, epoch=0, known=None, keep=None, every=4, seed=0):
    scores = torch.as_tensor(scores, dtype=torch.float32)
    request = go.Request(epoch, len(scores), epoch_generator(seed, epoch), scores, known, keep=keep)
    return go.Informative(every).order(request).indices


def due(size, epoch, every=4):
    """The examples that come although their score is zero: all others have a positive one and fill the epoch."""
    return {
        i for i in range(size) if i in ordered([1.0] * i + [0.0] + [1.0] * (size - i - 1), epoch=epoch, every=every)
    }


def test_examples_with_score_zero_give_their_places_to_the_others():
    scores = torch.zeros(40)
    scores[:15] = 0.5
    order = ordered(scores, epoch=2)
    visits = torch.bincount(order, minlength=40)
    turn = due(40, 2)
    assert len(order) == 40
    assert len(turn) == 10
    assert (visits[:15] == 2).all()
    for example in range(15, 40):
        assert visits[example] <= 1
        assert visits[example] == 1 or example not in turn
    first_round = order[: len({*range(15), *turn})].tolist()
    assert set(first_round) == {*range(15), *turn}


def test_an_example_comes_at_most_twice_and_the_rest_is_filled_with_waiting_ones():
    scores = torch.zeros(40)
    scores[3] = 1.0
    visits = torch.bincount(ordered(scores), minlength=40)
    assert visits.sum() == 40
    assert visits[3] == 2
    assert visits.max() == 2
    assert (visits == 0).sum() == 1


def test_without_any_positive_score_an_epoch_is_complete():
    assert sorted(ordered(torch.zeros(23)).tolist()) == list(range(23))


def test_without_a_zero_it_is_random_reshuffling_to_the_bit():
    expected = torch.randperm(23, generator=epoch_generator(5, 3))
    assert torch.equal(ordered(torch.rand(23) + 0.1, epoch=3, seed=5), expected)


def test_parts_are_not_by_index():
    turns = [due(40, epoch) for epoch in range(4)]
    assert sorted(sum((sorted(turn) for turn in turns), [])) == list(range(40))
    assert turns[0] != set(range(0, 40, 4))
    assert due(40, 4) == turns[0]


@given(
    size=st.integers(1, 30),
    every=st.integers(2, 5),
    places=st.floats(0.5, 1),
    start=st.integers(0, 3),
    seed=st.integers(0, 2**40),
)
def test_everything_is_visited_within_every_epochs(size, every, places, start, seed):
    """Whatever the scores are from epoch to epoch, who was scored, and how many places there are."""
    random = torch.Generator().manual_seed(seed)
    visited = set()
    for epoch in range(start, start + every):
        scores = torch.rand(size, generator=random).sub(0.7).clamp(min=0)
        known = torch.rand(size, generator=random) < 0.7
        order = ordered(scores, epoch=epoch, known=known, keep=places, every=every, seed=seed)
        assert len(order) == -(-round(places * size * 2**40) // 2**40)
        visited |= set(order.tolist())
    assert visited == set(range(size))


def test_a_promised_visit_goes_before_an_example_that_was_never_scored():
    known = torch.zeros(8, dtype=torch.bool)
    order = ordered(torch.zeros(8), known=known, keep=0.5, every=2)
    assert set(order.tolist()) == due(8, 0, every=2)


def test_what_it_cannot_serve_is_refused():
    generator = torch.Generator()
    with pytest.raises(ValueError, match="labels"):
        go.Informative().order(go.Request(0, 4, generator, torch.ones(4), classes=torch.tensor([0, 1, 0, 1])))
    with pytest.raises(ValueError, match=r"keep.*0\.25"):
        ordered(torch.ones(8), keep=0.2)
    with pytest.raises(ValueError, match="negative"):
        ordered([1.0, -1.0])
    with pytest.raises(ValueError, match="every"):
        go.Informative(every=1)
    with pytest.raises(ValueError, match="inner must put"):
        go.Revisiting(go.Informative())

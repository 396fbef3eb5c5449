import itertools
import math

import pytest
import torch
from asking import order_of
from hypothesis import given
from hypothesis import strategies as st

import gradorder as go

LOSSES = torch.tensor([0.01, 0.1, 0.5, 0.7, 1.5, 4.0, 30.0])


def indices_of(ordering, losses, seed=0, epoch=0):
    return ordering(losses, epoch=epoch, generator=torch.Generator().manual_seed(seed))


def doubt(loss, floor):
    """The rule, one example at a time."""
    p = math.exp(-loss)
    return (1 - p) * (p + floor)


@given(losses=st.lists(st.floats(0, 50), min_size=1, max_size=30, unique=True), floor=st.sampled_from([0.01, 0.1, 1.0]))
def test_the_order_is_that_of_the_rule(losses, floor):
    order = indices_of(go.Undecided(go.Descending(), floor), torch.tensor(losses, dtype=torch.float64))
    doubts = [doubt(losses[index], floor) for index in order.tolist()]
    for first, second in itertools.pairwise(doubts):
        assert first >= second - 1e-12


def test_what_is_learned_and_what_looks_wrong_comes_after_what_is_undecided():
    order = indices_of(go.Undecided(go.Descending()), LOSSES).tolist()
    assert order[:2] == [3, 2]  # p near 1/2
    assert order[-1] == 0  # learned
    assert order.index(6) > order.index(4) > order.index(3)  # the larger the loss, the later


def test_a_high_floor_is_the_order_of_the_losses():
    assert indices_of(go.Undecided(go.Descending(), floor=1.0), LOSSES).tolist() == [6, 5, 4, 3, 2, 1, 0]


def test_small_losses_are_told_apart_and_zero_has_no_doubt():
    tiny = torch.tensor([0.0, 1e-30, 1e-20])
    assert indices_of(go.Undecided(go.Descending()), tiny).tolist() == [2, 1, 0]


@pytest.mark.slow
def test_draws_follow_the_doubt():
    """First place in a Plackett-Luce order falls to an example in proportion to its doubt."""
    ordering = go.Undecided(go.PlackettLuce(1.0))
    draws = 1500
    first = torch.tensor([int(indices_of(ordering, LOSSES, seed)[0]) for seed in range(draws)])
    doubts = torch.tensor([doubt(float(loss), 0.1) for loss in LOSSES])
    expected = doubts / doubts.sum()
    spread = (expected * (1 - expected) / draws).sqrt()
    assert ((first.bincount(minlength=len(LOSSES)) / draws - expected).abs() < 4 * spread).all()


@pytest.mark.parametrize("ordering", [go.Undecided(go.Descending()), go.Undecided(go.PlackettLuce())])
def test_without_weights_there_are_none(ordering):
    assert order_of(ordering, LOSSES, keep=0.5).weights is None
    sampler = go.OrderedSampler(len(LOSSES), 2, ordering=ordering)
    sampler.set_epoch(0, scores=LOSSES)
    assert len(list(sampler)) == len(LOSSES)
    assert not sampler.is_weighted


@pytest.mark.parametrize("inner", [go.Descending(), go.PlackettLuce(), go.PlackettLuce(0.5, unbiased=True)], ids=str)
def test_inside_or_around_revisiting_is_the_same(inner):
    """What is forced to the front does not depend on scores, so it does not matter who sees the doubts first."""
    losses = torch.rand(40, generator=torch.Generator().manual_seed(3)) * 4
    for epoch in range(6):
        inside = order_of(go.Revisiting(go.Undecided(inner), 4), losses, epoch=epoch, keep=0.5)
        around = order_of(go.Undecided(go.Revisiting(inner, 4)), losses, epoch=epoch, keep=0.5)
        assert torch.equal(inside.indices, around.indices)
        assert (inside.weights is None) == (around.weights is None)
        assert inside.weights is None or torch.equal(inside.weights, around.weights)

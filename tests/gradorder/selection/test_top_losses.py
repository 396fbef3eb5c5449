import math

import numpy as np
import processes
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import gradorder as go

STEPS = [(0.0, 1), (0.79, 1), (0.8, 2), (0.89, 2), (0.9, 4), (0.949, 4), (0.95, 8), (0.994, 8), (0.995, 16), (1.0, 16)]


@pytest.mark.parametrize(("accuracy", "divisor"), STEPS)
def test_q_falls_as_the_paper_says(accuracy, divisor):
    top = go.TopLosses(128)
    top.observe(accuracy)
    assert top.q == 128 // divisor


@pytest.mark.parametrize(("size", "expected"), [(100, [100, 50, 25, 12, 6]), (5, [5, 2, 1, 1, 1]), (1, [1] * 5)])
def test_q_is_rounded_down_but_at_least_one(size, expected):
    top = go.TopLosses(size)
    seen = [top.q]
    for accuracy in (0.8, 0.9, 0.95, 0.995):
        top.observe(accuracy)
        seen.append(top.q)
    assert seen == expected


@given(percent=st.integers(1, 100))
def test_a_fraction_of_100_is_as_many_per_cent(percent):
    assert go.TopLosses(100, thresholds=(), fractions=(percent / 100,)).q == percent


def test_q_never_grows_back_unless_told_so():
    for may_grow, expected in [(False, 8), (True, 16)]:
        top = go.TopLosses(32, may_grow=may_grow)
        top.observe(0.93)
        top.observe(0.85)
        assert top.q == expected


def mean_of_largest(losses, q):
    """The slow, obvious version, and its gradient."""
    order = sorted(range(len(losses)), key=lambda i: (-losses[i], i))[:q]
    gradient = np.zeros(len(losses))
    gradient[order] = 1 / len(order)
    return np.mean([losses[i] for i in order]), gradient


@given(losses=st.lists(st.integers(-4, 4), min_size=1, max_size=24), stage=st.integers(0, 4))
def test_mean_is_that_of_the_largest_and_only_they_get_a_gradient(losses, stage):
    top = go.TopLosses(16)
    top.observe((0.0, 0.8, 0.9, 0.95, 0.995)[stage])
    values = torch.tensor(losses, dtype=torch.float64, requires_grad=True)
    mean = top.mean(values)
    mean.backward()
    expected, gradient = mean_of_largest(losses, 16 >> stage)
    assert mean.item() == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(values.grad.numpy(), gradient, rtol=1e-15)


def test_a_selection_trains_on_the_examples_that_mean_counts():
    model = nn.Linear(4, 3)
    batch = (torch.randn(16, 4), torch.arange(16) % 3)
    top = go.TopLosses(16)
    top.observe(0.9)
    losses = go.cross_entropy(model, batch)
    chosen = top(model, batch)
    assert len(chosen[0]) == 4
    torch.testing.assert_close(go.cross_entropy(model, chosen).mean(), top.mean(losses))
    hardest = go.cross_entropy(model, chosen)
    assert hardest.tolist() == sorted(hardest.tolist(), reverse=True)


def test_nan_is_not_hidden():
    top = go.TopLosses(4, thresholds=(), fractions=(0.5,))
    for bad in (math.nan, -math.nan, math.inf):
        assert not torch.isfinite(top.mean(torch.tensor([1.0, 2.0, bad, 3.0])))


def test_the_accuracy_is_counted_over_an_epoch():
    top = go.TopLosses(4)
    top.mean(torch.ones(4), correct=torch.tensor([True, True, True, True]))
    top.mean(torch.ones(4), correct=torch.tensor([True, True, True, True]))
    top.mean(torch.ones(2), correct=torch.tensor([True, False]))  # 9 of 10
    saved = top.state_dict()
    assert saved == {"num_passed": 0, "num_correct": 9, "num_counted": 10}
    assert all(type(value) is int for value in saved.values())
    top.observe()
    assert top.q == 1
    top.mean(torch.ones(4), correct=torch.tensor([True, True, True, False]))
    assert top.state_dict() == {"num_passed": 2, "num_correct": 3, "num_counted": 4}
    again = go.TopLosses(4)
    again.load_state_dict(saved)
    again.observe()
    assert again.state_dict() == {"num_passed": 2, "num_correct": 0, "num_counted": 0}


def test_a_given_accuracy_begins_a_new_count():
    top = go.TopLosses(4)
    top.mean(torch.ones(4), correct=torch.ones(4) > 0)
    top.observe(0.1)
    with pytest.raises(ValueError, match="accuracy must be given"):
        top.observe()


def counted():
    rank = dist.get_rank()
    top = go.TopLosses(32)
    top.mean(torch.ones(10), correct=torch.arange(10) < (10 if rank else 6))  # 16 of 20, but 6 of 10 here
    top.observe()
    try:
        top.observe(0.97 if rank else 0.5)
    except go.RankError as error:
        return top.q, str(error)
    return None


@pytest.mark.slow
def test_processes_count_together_and_share_q():
    first, second = processes.run(counted, 2)
    assert first == second
    assert first[0] == 8  # half of 32, half of it here
    assert "accuracy" in first[1]

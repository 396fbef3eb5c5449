import numpy as np
import processes
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import gradorder as go


def probabilities(history, losses, beta):
    """The slow, obvious version: the share of remembered losses that are not larger, to the power beta."""
    return np.array([np.mean([past <= loss for past in history]) ** beta for loss in losses])


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_examples_stay_as_often_as_the_rule_says(beta):
    """One batch again and again: its losses are the history, whatever the draws were."""
    losses = [0.1, 2.0, 0.5, 0.5, 0.2, 3.0, 0.3, 1.0]
    select = go.SelectiveBackprop(beta, history=8)
    num_draws = 1500
    kept = np.zeros(8)
    for _ in range(num_draws):
        kept[select.chosen(torch.tensor(losses)).numpy()] += 1
    expected = probabilities(losses, losses, beta)
    deviation = np.sqrt(expected * (1 - expected) / num_draws)
    assert (np.abs(kept / num_draws - expected) <= 4.5 * deviation).all()
    assert kept[5] == num_draws


def test_the_history_is_the_last_losses_the_batch_among_them():
    select = go.SelectiveBackprop(history=5, seed=3)
    for values in ([9.0, 9.0, 9.0], [1.0, 2.0], [3.0]):
        select.chosen(torch.tensor(values))
    assert select.state_dict()["history"].tolist() == [9.0, 9.0, 1.0, 2.0, 3.0]
    rates = np.zeros(2)
    state = select.state_dict()
    for place in range(1000):
        select.load_state_dict(state | {"num_draws": place})
        rates[select.chosen(torch.tensor([1.5, 2.0])).numpy()] += 1 / 1000
    # Remembered then: 1, 2, 3, 1.5, 2. Neither is certain; where none stays the larger does.
    low, high = probabilities([1, 2, 3, 1.5, 2], [1.5, 2.0], 1.0)
    np.testing.assert_allclose(rates, [low, high + (1 - low) * (1 - high)], atol=0.05)


@given(losses=st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=12), beta=st.floats(0.1, 60))
def test_at_least_one_stays_in_the_order_of_the_batch(losses, beta):
    select = go.SelectiveBackprop(beta, history=100)
    select.chosen(torch.full((88,), 99.0))
    kept = select.chosen(torch.tensor(losses)).tolist()
    assert kept == sorted(set(kept))
    assert kept
    assert max(kept) < len(losses)


def test_if_none_stays_the_hardest_does():
    select = go.SelectiveBackprop(1e6, history=1000)
    select.chosen(torch.full((900,), 99.0))
    assert select.chosen(torch.tensor([1.0, 3.0, 2.0, 3.0])).tolist() == [1]


def test_a_constant_loss_keeps_everything():
    assert select_all(torch.full((6,), 2.0)) == list(range(6))


def select_all(losses):
    return go.SelectiveBackprop(3.0).chosen(losses).tolist()


def test_a_selection_and_own_losses_agree():
    model = nn.Linear(4, 3)
    batch = (torch.randn(30, 4), torch.arange(30) % 3)
    kept = go.SelectiveBackprop(seed=5)(model, batch)[0]
    indices = go.SelectiveBackprop(seed=5).chosen(go.cross_entropy(model, batch))
    assert 1 < len(indices) < 30
    assert torch.equal(kept, batch[0][indices])


def test_a_state_is_a_copy():
    select = go.SelectiveBackprop(history=4)
    select.chosen(torch.tensor([1.0, 2.0]))
    state = select.state_dict()
    other = go.SelectiveBackprop(history=4)
    other.load_state_dict(state)
    state["history"].zero_()
    assert select.state_dict()["history"].tolist() == other.state_dict()["history"].tolist() == [1.0, 2.0]


def test_half_precision_losses_and_a_change_of_type():
    select = go.SelectiveBackprop(history=6)
    select.chosen(torch.tensor([1.0, 2.0], dtype=torch.bfloat16))
    select.chosen(torch.tensor([3.0], dtype=torch.float64))
    assert select.state_dict()["history"].tolist() == [1.0, 2.0, 3.0]


def drawn():
    select = go.SelectiveBackprop(seed=1)
    return [select.chosen(torch.arange(50.0)).tolist(), dist.get_rank()]


@pytest.mark.slow
def test_processes_draw_different_numbers():
    (first, _), (second, _) = processes.run(drawn, 2)
    assert first != second
    assert first == go.SelectiveBackprop(seed=1).chosen(torch.arange(50.0)).tolist()

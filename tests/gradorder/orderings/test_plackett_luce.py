import math

import pytest
import torch

import gradorder as go


def order(scores, temperature=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return go.PlackettLuce(temperature)(torch.as_tensor(scores), epoch=0, generator=generator)


@pytest.mark.parametrize("temperature", [1e-3, 1e-9, 1e-310])
def test_cold_is_descending(temperature):
    scores = torch.arange(1, 101, dtype=torch.float32)[torch.randperm(100)]
    expected = go.Descending()(scores, epoch=0, generator=torch.Generator())
    assert torch.equal(order(scores, temperature), expected)


@pytest.mark.parametrize("temperature", [1e9, 1e308, math.inf])
def test_hot_ignores_the_scores(temperature):
    first = torch.stack([order([1.0, 2.0, 4.0, 1000.0], temperature, seed)[0] for seed in range(4000)])
    counts = torch.bincount(first, minlength=4)
    assert (counts - 1000).abs().max() < 5 * 28


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_without_replacement_with_weights_score_to_the_inverse_temperature(temperature):
    scores = torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.float64)
    num_draws = 8000
    drawn = torch.stack([order(scores, temperature, seed) for seed in range(num_draws)])
    weights = scores ** (1 / temperature)
    first = torch.bincount(drawn[:, 0], minlength=4) / num_draws
    expected_first = weights / weights.sum()
    assert (first - expected_first).abs().max() < 5 * 0.5 / math.sqrt(num_draws)
    # Given that the last example came first, the second is drawn among the others by the same weights.
    second = torch.bincount(drawn[drawn[:, 0] == 3][:, 1], minlength=4).double()
    expected_second = weights[:3] / weights[:3].sum()
    assert (second[:3] / second.sum() - expected_second).abs().max() < 5 * 0.5 / math.sqrt(float(second.sum()))


def test_zeros_come_last_in_random_order():
    scores = [0.0, 5.0, 0.0, 1.0, 0.0]
    tails = set()
    for seed in range(60):
        drawn = order(scores, seed=seed).tolist()
        assert set(drawn[:2]) == {1, 3}
        tails.add(tuple(drawn[2:]))
    assert len(tails) == 6


def test_all_zero_is_a_permutation():
    assert sorted(order([0.0] * 5).tolist()) == [0, 1, 2, 3, 4]


def test_refuses_negative_scores_and_bad_temperatures():
    with pytest.raises(ValueError, match=r"1 of 3 are \(first: example 1 with -2\.0\)"):
        order([1.0, -2.0, 3.0])
    for temperature in (0, -1.0, math.nan, "hot", True):
        with pytest.raises(ValueError, match="temperature must be positive, got"):
            go.PlackettLuce(temperature)

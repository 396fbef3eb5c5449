"""The saving and its interval, on curves whose truth is known."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from gradorder_lab.benchmark import curves
from gradorder_lab.benchmark.curves import CostCurve, isotonic, saving

BUDGETS = np.array([0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0])


def simulated(rng, num_seeds, factor, spread):
    """A method that needs `factor` times random reshuffling's cost at any accuracy; half of the noise is the seed's."""
    of_seed = rng.normal(size=num_seeds) * spread * np.sqrt(0.5)

    def curve(times):
        noise = rng.normal(size=(len(BUDGETS), num_seeds)) * spread * np.sqrt(0.5)
        mean = 89 - 1.2 * ((BUDGETS / times) ** -0.5 - 1)
        return CostCurve(mean[:, None] + of_seed + noise, np.tile(60_000 * BUDGETS[:, None], num_seeds))

    return curve(factor), curve(1.0)


def exact(*accuracies, cost=BUDGETS):
    return CostCurve(np.tile(np.array(accuracies, dtype=float)[:, None], 3), np.tile(np.asarray(cost)[:, None], 3))


RANDOM = exact(80.0, 82.0, 84.0, 86.0, 88.0, 89.0, 90.0)


def test_the_fit_is_isotonic_regression():
    values = np.random.default_rng(0).normal(size=(7, 200)) + np.arange(7)[:, None] * 0.3
    expected = np.array([isotonic_regression(column).x for column in values.T]).T
    assert isotonic(values) == pytest.approx(expected, abs=1e-12)


def test_what_never_falls_is_its_own_fit():
    values = np.array([[1.0, 2.0], [1.0, 5.0], [3.0, 5.5]])
    assert np.array_equal(isotonic(values), values)


def test_between_two_budgets_the_curve_is_straight_in_log_cost():
    # the target, 89.5, is half way from 0.8 to 1 for random reshuffling, and from 0.4 to 0.5 for the other
    method = exact(80.0, 82.0, 89.0, 90.0, 90.0, 90.0, 90.0)
    found = saving(method, RANDOM, margin=0.5)
    assert found.share == pytest.approx(np.sqrt(0.4 * 0.5) / np.sqrt(0.8 * 1.0))
    assert found.low == found.high == found.share  # no seed differs
    assert not found.is_bound


def test_random_reshuffling_saves_nothing():
    _, random = simulated(np.random.default_rng(3), 10, 1.0, 0.2)
    assert saving(random, random, margin=0.1) == curves.Saving(1.0, 1.0, 1.0)


def test_never_reached_is_infinite_and_not_extrapolated():
    found = saving(exact(80.0, 81.0, 82.0, 83.0, 84.0, 85.0, 89.49), RANDOM, margin=0.5)
    assert (found.share, found.low, found.high) == (np.inf, np.inf, np.inf)
    assert not found.is_reached


def test_reached_at_the_smallest_budget_is_a_bound():
    found = saving(exact(*[89.6] * 7), RANDOM, margin=0.5)
    assert found.is_bound
    assert found.low_is_bound
    assert found.share == pytest.approx(0.2 / np.sqrt(0.8))


def test_where_random_reshuffling_is_there_at_once_nothing_is_said():
    flat = exact(*[90.0] * 7)
    found = saving(flat, flat, margin=0.5)
    assert np.isnan([found.share, found.low, found.high]).all()
    assert not found.is_reached


def test_an_interval_may_end_with_not_reached():
    seeds = np.random.default_rng(0).normal(size=(7, 10)) * 0.3
    method = CostCurve(RANDOM.accuracy[:, :1] - 0.45 + seeds, np.tile(BUDGETS[:, None], 10))
    random = CostCurve(np.tile(RANDOM.accuracy[:, :1], 10), method.cost)
    found = saving(method, random, margin=0.5)
    assert 1.0 < found.low < found.share < np.inf
    assert found.high == np.inf


def test_few_seeds_are_resampled_in_every_way():
    """Five seeds: what any number of draws nears, and what does not hang on them."""
    weights, chances = curves._resampled(5, curves.RESAMPLES)
    assert weights.shape == (5, 126)
    assert len(np.unique(weights, axis=1).T) == 126
    assert weights.sum(axis=0) == pytest.approx(np.ones(126))
    assert chances.sum() == pytest.approx(1.0)
    assert weights @ chances == pytest.approx(np.full(5, 0.2))
    drawn, _ = curves._resampled(5, 125)  # too few for all of them
    assert drawn.shape == (5, 125)
    assert chances[(weights == 1.0).any(axis=0)] == pytest.approx(np.full(5, 5.0**-5))


@pytest.mark.parametrize("num_seeds", [5, 10])
@pytest.mark.parametrize("factor", [0.5, 0.8, 1.0])
def test_the_interval_holds_the_truth_as_often_as_it_says(num_seeds, factor, monkeypatch):
    monkeypatch.setattr(curves, "RESAMPLES", 1000)
    rng = np.random.default_rng(1)
    found = [saving(*simulated(rng, num_seeds, factor, 0.15), margin=0.1) for _ in range(200)]
    share = np.mean([one.low <= factor <= one.high for one in found])
    assert 0.91 <= share <= 0.99  # 95% +- 2.6 standard errors
    assert np.median([one.share for one in found]) == pytest.approx(factor, rel=0.03)
    if factor < 1:  # and it says something; one that saves nothing may as well not get there
        assert np.median([one.high / one.low for one in found]) < 1.6


def test_the_saving_hangs_on_no_knife_edge():
    """A target 0.003 points lower, by which the first version's figure passed."""
    rng = np.random.default_rng(2)
    pairs = [simulated(rng, 10, 0.8, 0.1) for _ in range(100)]
    moves = [abs(np.log(saving(*pair, 0.103).share / saving(*pair, 0.1).share)) for pair in pairs]
    assert max(moves) < 0.02
    assert np.median(moves) < 0.002


def test_a_higher_target_never_costs_less():
    method, random = simulated(np.random.default_rng(4), 5, 0.8, 0.3)
    one = np.full((5, 1), 0.2)
    targets = np.linspace(86, 89, 50)
    costs = np.concatenate([curves._costs_at(np.array([target]), method, one)[0] for target in targets])
    assert (costs[1:] >= costs[:-1]).all()  # also from finite to infinite, and never back
    assert saving(method, random, 0.1) == saving(method, random, 0.1)  # resampled by a fixed seed


def test_seeds_are_paired_noise_that_both_share_does_not_count():
    rng = np.random.default_rng(5)
    shared = rng.normal(size=10) * 0.5
    method, random = (
        CostCurve(one.accuracy[:, :1] + shared, np.tile(BUDGETS[:, None], 10)) for one in (RANDOM, RANDOM)
    )
    found = saving(method, random, 0.5)
    assert found.low == pytest.approx(1.0)
    assert found.high == pytest.approx(1.0)


def test_a_clock_that_goes_wrong_once_does_not_hide_that_the_target_was_reached():
    """The longest run of random reshuffling seems cheaper than the one before it."""
    accuracy = np.repeat([[80.0], [85.0], [88.0], [90.0]], 5, axis=1)
    random = CostCurve(accuracy, np.repeat([[1.0], [2.0], [4.5], [4.0]], 5, axis=1))
    found = saving(random, random, margin=0.1)
    assert (found.share, found.low, found.high) == (1.0, 1.0, 1.0)

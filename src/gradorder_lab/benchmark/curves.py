"""Accuracy against cost, and how much cost a method saves at the same accuracy.

A curve is the mean over seeds at each budget, accuracy and cost: the best fit that never falls with the budget
(isotonic regression), a straight line in log cost from budget to budget. The target is the mean of random reshuffling
at the full budget less a fixed margin. The saving is the cost at which a method's curve reaches it, over the cost at
which random reshuffling's own curve does.

The interval comes from resampling the seeds, the same ones for the method and for random reshuffling, through all of
this: target, fit and inversion. Resamples in which the target is not reached count as infinite cost.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations_with_replacement
from math import comb, inf, nan

import numpy as np
from numpy.typing import NDArray
from scipy import special

from gradorder_lab.judge.effects import student_width
from gradorder_lab.runs.recipe import Array

RESAMPLES = 8000  # eight seeds have 6,435 different ones
FEWEST = 5
"""Seeds that an interval needs: with fewer, it holds the truth too rarely."""

_RESAMPLING_SEED = 20


@dataclass(frozen=True, eq=False)
class CostCurve:
    """One method on one task: budgets down, seeds across; both in increasing order."""

    accuracy: Array
    cost: Array


@dataclass(frozen=True)
class Saving:
    """A cost as a share of random reshuffling's at the same accuracy, with its interval.

    Args:
        share: infinite where the target was not reached; NaN, with the interval, where nobody knows what random
            reshuffling needs, because it is there at its smallest budget already.
        low: of the 95% interval.
        high: infinite where too many resamples do not reach the target.
        is_bound: the target was reached at the smallest budget already: the share is at most this.
        low_is_bound: the same of the interval's low end.
    """

    share: float
    low: float
    high: float
    is_bound: bool = False
    low_is_bound: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether the target was reached within the budgets."""
        return self.share < inf


UNKNOWN_SAVING = Saving(nan, nan, nan)


def saving(method: CostCurve, random: CostCurve, margin: float) -> Saving:
    """What the method saves, seeds paired column by column."""
    num_seeds = random.accuracy.shape[1]
    once = np.full((num_seeds, 1), 1 / num_seeds)
    if _costs_at(random.accuracy[-1] @ once - margin, random, once)[1].any():
        return UNKNOWN_SAVING
    (share,), (is_bound,) = _shares(method, random, margin, once)
    weights, chances = _resampled(num_seeds, RESAMPLES)
    shares, bounds = _shares(method, random, margin, weights)
    outside = _outside(num_seeds)
    low, high = np.quantile(shares, (outside, 1 - outside), method="inverted_cdf", weights=chances)
    return Saving(float(share), float(low), float(high), bool(is_bound), bool(bounds @ chances > outside))


@cache
def _resampled(num_seeds: int, most: int) -> tuple[Array, Array]:
    """The weight of every seed in every resample, (S, R), and the chance of each resample.

    All of them, where there are no more than `most`: an end of the interval then hangs on no draw.
    """
    even = np.full(num_seeds, 1 / num_seeds)
    if comb(2 * num_seeds - 1, num_seeds) <= most:
        drawn = combinations_with_replacement(range(num_seeds), num_seeds)
        counts = np.array([np.bincount(one, minlength=num_seeds) for one in drawn])
        # the multinomial distribution; scipy.stats has it, and takes longer to load than all of this takes
        terms = special.xlogy(counts, even) - special.gammaln(counts + 1)
        chances = np.exp(special.gammaln(num_seeds + 1) + terms.sum(axis=-1))
    else:
        counts = np.random.default_rng(_RESAMPLING_SEED).multinomial(num_seeds, even, most)
        chances = np.full(most, 1 / most)
    return counts.T / num_seeds, chances


def _outside(num_seeds: int) -> float:
    """The share of resamples beyond either end of the interval.

    With few seeds a percentile interval is too narrow: the standard deviation of resamples divides by S, and S values
    have the tails of Student's t. This share makes the interval of a mean as wide as Student's.
    """
    if num_seeds == 1:
        return 0.0
    wide = student_width(num_seeds) * np.sqrt(num_seeds / (num_seeds - 1))
    return float(special.ndtr(-wide))


def _shares(method: CostCurve, random: CostCurve, margin: float, weights: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The saving for each column of weights (S, R), and whether it is but a bound."""
    target = random.accuracy[-1] @ weights - margin
    ours, is_bound = _costs_at(target, method, weights)
    theirs, is_unknown = _costs_at(target, random, weights)
    # where random reshuffling is there at its smallest budget, nobody knows what it needs
    return np.where(is_unknown, inf, np.exp(ours - theirs)), is_bound & ~is_unknown


def _costs_at(target: Array, curve: CostCurve, weights: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Log cost at which the curve reaches the target, (R,), and whether it does so at its smallest cost already."""
    # A longer run costs more and learns more; where a clock or chance says otherwise, neighbours are pooled.
    fit, log_cost = (
        _fitted(_Table(curve.accuracy), _Table(weights), False),
        _fitted(_Table(curve.cost), _Table(weights), True),
    )
    is_there = fit >= target
    after = is_there.argmax(axis=0)
    before = np.maximum(after - 1, 0)
    (x0, x1), (y0, y1) = (np.take_along_axis(table, np.stack([before, after]), 0) for table in (log_cost, fit))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(after == 0, x1, x0 + (x1 - x0) * (target - y0) / (y1 - y0))
    is_reached = is_there.any(axis=0)
    return np.where(is_reached, found, inf), is_reached & (after == 0)


class _Table:
    """A table as a key: equal if its numbers are. Curves of one task share tables, and fits take longest."""

    def __init__(self, numbers: Array) -> None:
        self.numbers = numbers
        self._key = (numbers.shape, hash(numbers.tobytes()))

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Table) and np.array_equal(self.numbers, other.numbers)


@lru_cache(maxsize=12)
def _fitted(values: _Table, weights: _Table, is_cost: bool) -> Array:
    """The weighted means, or their logarithms, that never fall."""
    means = values.numbers @ weights.numbers
    return isotonic(np.log(means) if is_cost else means)


def isotonic(values: Array) -> Array:
    """The nearest numbers, by least squares, that never fall down each column of (B, R).

    By the formula max over a <= i of min over b >= i of the mean of values a to b: the same as pooling neighbours, for
    all columns at once.
    """
    num_points = len(values)
    sums = np.concatenate([np.zeros_like(values[:1]), values.cumsum(axis=0)])
    fit = np.full_like(values, -inf)
    for first in range(num_points):
        lengths = np.arange(1, num_points - first + 1)[:, None]
        means = (sums[first + 1 :] - sums[first]) / lengths
        lowest = np.minimum.accumulate(means[::-1], axis=0)[::-1]  # over all ends from here on
        fit[first:] = np.maximum(fit[first:], lowest)
    return fit

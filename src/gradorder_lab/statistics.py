"""Paired comparisons over seeds: an effect, its 95% interval, the share of seeds won."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]

MARGIN = 0.05
"""What "about the same" allows, as a share of random's F - F* or loss. Fixed before any run."""

POINTS_MARGIN = 0.5
"""What it allows of an accuracy, in points. Fixed before any run."""

Unit = Literal["share", "points"]

_LEVEL = 0.95


@dataclass(frozen=True)
class Effect:
    """How much lower `ours` ended than `theirs`, as a share of a scale; negative is lower.

    Args:
        mean: the mean of the paired differences.
        low: lower end of the 95% interval (Student's t).
        high: upper end.
        won: the share of seeds with `ours` strictly lower.
        num_seeds: paired seeds.
        loss_difference: the mean relative difference of F itself.
        unit: whether the numbers are shares of a scale, or points of accuracy.
    """

    mean: float
    low: float
    high: float
    won: float
    num_seeds: int
    loss_difference: float = float("nan")
    unit: Unit = "share"

    @classmethod
    def of(cls, ours: Array, theirs: Array, scale: float, loss_difference: float = float("nan")) -> Self:
        """From the values of the same seeds in the same order."""
        differences = (ours - theirs) / scale
        low, high = interval(differences)
        won = float((ours < theirs).mean())
        return cls(float(differences.mean()), low, high, won, len(differences), loss_difference)

    @property
    def is_lower(self) -> bool:
        """The interval lies below 0."""
        return self.high < 0

    @property
    def is_higher(self) -> bool:
        """The interval lies above 0."""
        return self.low > 0

    @property
    def is_within_margin(self) -> bool:
        """The interval lies within the margin: an effect that large is excluded."""
        return self.low > -self.margin and self.high < self.margin

    @property
    def is_outside_margin(self) -> bool:
        """The interval excludes the whole margin."""
        return self.low > self.margin or self.high < -self.margin

    @property
    def margin(self) -> float:
        """What "about the same" allows."""
        return POINTS_MARGIN if self.unit == "points" else MARGIN

    def shown(self, value: float) -> str:
        """One of its numbers with its unit, short at any size."""
        if self.unit == "points":
            return f"{value:+.2f} pt"
        return f"{100 * value:+.2g}%" if abs(value) < 1 else f"{100 * value:+.0f}%"


def interval(values: Array) -> tuple[float, float]:
    """The 95% interval of the mean by Student's t; without bounds for a single value."""
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return -np.inf, np.inf
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    width = float(stats.t.ppf((1 + _LEVEL) / 2, len(values) - 1)) * error
    return mean - width, mean + width

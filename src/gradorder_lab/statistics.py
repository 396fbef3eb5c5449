"""Paired comparisons over seeds: an effect, its 95% interval, the share of seeds won."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]

MARGIN = 0.05
"""What "about the same" allows, as a share of random's F - F*. Fixed before any run."""

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
    """

    mean: float
    low: float
    high: float
    won: float
    num_seeds: int
    loss_difference: float = float("nan")

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
        return self.low > -MARGIN and self.high < MARGIN

    @property
    def is_outside_margin(self) -> bool:
        """The interval excludes the whole margin."""
        return self.low > MARGIN or self.high < -MARGIN


def interval(values: Array) -> tuple[float, float]:
    """The 95% interval of the mean by Student's t; without bounds for a single value."""
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return -np.inf, np.inf
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    width = float(stats.t.ppf((1 + _LEVEL) / 2, len(values) - 1)) * error
    return mean - width, mean + width

"""Paired comparisons over seeds: an effect, its 95% interval, the share of seeds won."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from scipy import special

from gradorder_lab.runs.recipe import Array

Unit = Literal["fall", "excess", "points"]
"""What an effect is measured by: random's fall of F over the run, random's F - F* at its end, points of accuracy."""

MARGINS: dict[Unit, float] = {"fall": 0.01, "excess": 0.05, "points": 0.5}
"""What "about the same" allows."""

SMALLEST: dict[Unit, float] = {"fall": 0.001, "excess": 0.0, "points": 0.1}
"""The smallest effect that matters."""

LEVEL = 0.95


@dataclass(frozen=True)
class Effect:
    """How much lower `ours` ended than `theirs`, in its unit; negative is lower.

    Args:
        mean: the mean of the paired differences.
        low: lower end of the 95% interval (Student's t).
        high: upper end.
        won: the share of seeds with `ours` strictly lower.
        num_seeds: paired seeds.
        loss_difference: the mean relative difference of F itself.
        unit: what it is measured by.
        excess_factor: what makes an effect on F a share of random's F - F*, as in the rule's first version.
    """

    mean: float
    low: float
    high: float
    won: float
    num_seeds: int
    loss_difference: float = float("nan")
    unit: Unit = "fall"
    excess_factor: float = 1.0

    @classmethod
    def of(cls, ours: Array, theirs: Array, scale: float = 1.0, unit: Unit = "fall") -> Self:
        """From the values of the same seeds in the same order."""
        differences = (ours - theirs) / scale
        low, high = interval(differences)
        return cls(float(differences.mean()), low, high, float((ours < theirs).mean()), len(differences), unit=unit)

    @property
    def margin(self) -> float:
        """What "about the same" allows."""
        return MARGINS[self.unit]

    @property
    def smallest(self) -> float:
        """The smallest effect that matters."""
        return SMALLEST[self.unit]

    def level_at(self, width: float) -> float:
        """The share of intervals, 1 - level, left out by one that is this wide on either side of the mean."""
        if width <= 0 or not np.isfinite(self.high):
            return 1.0
        half = self.high - self.mean
        if half == 0:
            return 0.0
        error = half / student_width(self.num_seeds)
        return float(2 * special.stdtr(self.num_seeds - 1, -width / error))

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
    width = student_width(len(values)) * error
    return mean - width, mean + width


def student_width(num_seeds: int) -> float:
    """Half the 95% interval of a mean over so many seeds, in standard errors: Student's t."""
    return float(special.stdtrit(num_seeds - 1, (1 + LEVEL) / 2))

"""The line of one effect in a forest plot: where its marks lie, from 0 at the left to 100 at the right.

Effects reach from millionths to hundreds of percent: the axis is linear around zero and logarithmic further out
(inverse hyperbolic sine).
"""

import math
from dataclasses import dataclass

from gradorder_lab.claims import Comparison, Kind
from gradorder_lab.statistics import MARGIN, Effect

_LINEAR_TO = 0.005
_END = 10.0  # shares beyond are drawn at the edge


@dataclass(frozen=True)
class Tick:
    """A mark on the axis."""

    place: float
    text: str


@dataclass(frozen=True)
class ForestLine:
    """Places of the marks; `claimed` is the part of the axis where the claim would have the effect."""

    mean: float
    low: float
    high: float
    claimed: tuple[float, float] | None

    @classmethod
    def of(cls, comparison: Comparison, effect: Effect) -> "ForestLine":
        """The line of this comparison."""
        # points are drawn so that their margin falls on the same line
        mean, low, high = (place(value * MARGIN / effect.margin) for value in (effect.mean, effect.low, effect.high))
        return cls(mean, low, high, _claimed(comparison.kind))


def place(share: float) -> float:
    """Where a share lies.

    >>> place(0.0), place(-math.inf), place(1e9)
    (50.0, 0.0, 100.0)
    """
    inside = min(max(share, -_END), _END)
    return round(50 + 50 * math.asinh(inside / _LINEAR_TO) / math.asinh(_END / _LINEAR_TO), 2)


def _claimed(kind: Kind) -> tuple[float, float] | None:
    parts = {"lower": (-_END, 0.0), "equal": (-MARGIN, MARGIN)}
    return (place(parts[kind][0]), place(parts[kind][1])) if kind in parts else None


TICKS = tuple(Tick(place(share), f"{share:+.0%}".replace("-", "−")) for share in (-1, -MARGIN, MARGIN, 1))

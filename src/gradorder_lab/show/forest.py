"""The line of one effect in a forest plot: where its marks lie, from 0 at the left to 100 at the right.

The axis is in multiples of the margin, which is drawn at ±1. It is linear around zero and logarithmic further out
(inverse hyperbolic sine).
"""

import math
from dataclasses import dataclass

from gradorder_lab.judge.claims import ClaimKind, Comparison
from gradorder_lab.judge.effects import Effect

_LINEAR_TO = 0.1
_EDGE = 200.0  # what is beyond is drawn at the edge


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
        mean, low, high = (effect_place(value / effect.margin) for value in (effect.mean, effect.low, effect.high))
        return cls(mean, low, high, _claimed(comparison.kind))


def effect_place(margins: float) -> float:
    """Where an effect lies that is so many times what "about the same" allows.

    >>> effect_place(0.0), effect_place(-math.inf), effect_place(1e9)
    (50.0, 0.0, 100.0)
    """
    inside = min(max(margins, -_EDGE), _EDGE)
    return round(50 + 50 * math.asinh(inside / _LINEAR_TO) / math.asinh(_EDGE / _LINEAR_TO), 2)


def _claimed(kind: ClaimKind) -> tuple[float, float] | None:
    parts = {"lower": (-_EDGE, 0.0), "equal": (-1.0, 1.0)}
    return (effect_place(parts[kind][0]), effect_place(parts[kind][1])) if kind in parts else None


EFFECT_TICKS = tuple(Tick(effect_place(times), f"{times:+}×".replace("-", "−")) for times in (-20, -1, 1, 20))

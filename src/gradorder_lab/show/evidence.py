"""A comparison on the page: its effect in words, and as a line of a forest plot.

The axis of a forest plot is in multiples of the margin, which is drawn at ±1. It is linear around zero and logarithmic
further out (inverse hyperbolic sine). Places on it run from 0 at the left to 100 at the right.
"""

import math
from dataclasses import dataclass

from gradorder_lab.judge.claims import Claim, Comparison
from gradorder_lab.judge.effects import Effect

NEGLIGIBLE = 1e-6
"""A share below which an effect is too small to matter, however sure its sign is."""

_FEWEST_PERCENT = 1e-3
_MOST_PERCENT = 1000
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

_LINEAR_TO = 0.1
_EDGE = 200.0  # what is beyond is drawn there


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
        parts = {"lower": (-_EDGE, 0.0), "equal": (-1.0, 1.0)}.get(comparison.kind)
        return cls(mean, low, high, None if parts is None else (effect_place(parts[0]), effect_place(parts[1])))


@dataclass(frozen=True)
class Evidence:
    """A comparison in words. Without numbers where its runs are missing."""

    data: str
    what: str
    reading: str
    is_primary: bool
    outcome: str = "missing"
    effect: str = "–"
    interval: str = "–"
    remark: str = ""
    won: str = "–"
    num_seeds: int = 0
    loss_difference: str = "–"
    line: ForestLine | None = None
    untested: str = ""

    @property
    def shown(self) -> str:
        """As "synthetic: descending − random"."""
        return f"{self.data}: {self.what}"

    @classmethod
    def of(cls, claim: Claim, comparison: Comparison) -> "Evidence":
        """The numbers of this comparison."""
        what = comparison.what.replace(" - ", " − ")
        about = (comparison.data, what, comparison.reading, claim.is_primary(comparison))
        effect, untested = comparison.effect, comparison.untested
        if effect is None:
            return cls(*about, outcome="does not count" if untested else "missing", untested=untested)
        return cls(
            *about,
            outcome=str(claim.outcome_of(comparison) or "does not count"),
            untested=untested,
            effect=in_unit(effect, effect.mean),
            interval=interval_text(effect),
            remark=remark(effect),
            won=f"{effect.won:.0%}",
            num_seeds=effect.num_seeds,
            loss_difference=percent(effect.loss_difference),
            line=ForestLine.of(comparison, effect),
        )


def effect_place(margins: float) -> float:
    """Where an effect lies that is so many times what "about the same" allows.

    >>> effect_place(0.0), effect_place(-math.inf), effect_place(1e9)
    (50.0, 0.0, 100.0)
    """
    inside = min(max(margins, -_EDGE), _EDGE)
    return round(50 + 50 * math.asinh(inside / _LINEAR_TO) / math.asinh(_EDGE / _LINEAR_TO), 2)


EFFECT_TICKS = {f"{times:+}×".replace("-", "−"): effect_place(times) for times in (-20, -1, 1, 20)}


def percent(share: float) -> str:
    r"""A share as percent with three digits.

    >>> percent(-0.48123), percent(12.345), percent(0.0), percent(-1.034e-9)
    ('−48.1%', '+1,234%', '0%', '−1.03 ×\xa010⁻⁷%')
    """
    value = 100 * share
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "+∞" if value > 0 else "−∞"
    if value == 0:
        return "0%"
    return _with_digits(value).replace("-", "−") + "%"


def _with_digits(value: float) -> str:
    if abs(value) < _FEWEST_PERCENT:
        mantissa, exponent = f"{value:+.2e}".split("e")
        return f"{mantissa} ×\N{NO-BREAK SPACE}10{str(int(exponent)).translate(_RAISED)}"
    return f"{value:+,.0f}" if abs(value) >= _MOST_PERCENT else f"{value:+.3g}"


def in_unit(effect: Effect, value: float) -> str:
    """One of the numbers of an effect, in its unit.

    >>> in_unit(Effect(mean=-0.5, low=-1.0, high=0.0, won=0.5, num_seeds=10, unit="points"), -0.5)
    '−0.50 points'
    """
    if effect.unit != "points" or not math.isfinite(value):
        return percent(value)
    return f"{value:+.2f} points".replace("-", "−")


def interval_text(effect: Effect) -> str:
    """The ends of its 95% interval.

    >>> interval_text(Effect(mean=0.1, low=-0.2, high=0.4, won=0.5, num_seeds=10))
    '−20% to +40%'
    >>> interval_text(Effect(mean=0.1, low=-0.2, high=0.4, won=0.5, num_seeds=10, unit="points"))
    '−0.20 to +0.40 points'
    """
    return f"{in_unit(effect, effect.low).removesuffix(' points')} to {in_unit(effect, effect.high)}"


def remark(effect: Effect) -> str:
    """What to say of an effect that is next to nothing; empty for all others.

    >>> remark(Effect(mean=-1e-9, low=-2e-9, high=-5e-10, won=1.0, num_seeds=10))
    'negligible, though significant'
    """
    if abs(effect.mean) >= NEGLIGIBLE:
        return ""
    if effect.low == effect.high == 0:
        return "identical"
    return "negligible, though significant" if effect.high < 0 or effect.low > 0 else "negligible"

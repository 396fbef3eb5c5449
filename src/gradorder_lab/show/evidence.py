"""The cells of a claim in words: one by one, and as the table of parts and readings that a claim is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gradorder_lab.judge.claims import Cell, Claim, Outcome
from gradorder_lab.judge.effects import Effect

NEGLIGIBLE = 1e-6
"""A share below which an effect is too small to matter, however sure its sign is."""

_FEWEST_PERCENT = 1e-3
_MOST_PERCENT = 1000
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Evidence:
    """A cell in words. Without numbers if its runs are missing."""

    part: str
    compared: str
    reading: str
    outcome: str = "missing"
    effect: str = "–"
    of_what: str = ""
    interval: str = "–"
    remark: str = ""
    won: str = "–"
    num_seeds: int = 0
    loss_difference: str = "–"
    left: str = "–"
    untested: str = ""

    @property
    def row(self) -> str:
        """As "synthetic: descending − random"."""
        return f"{self.part}: {self.compared}"

    @classmethod
    def of(cls, claim: Claim, cell: Cell) -> "Evidence":
        """The numbers of this cell."""
        about = (", ".join(cell.part), cell.compared.replace(" - ", " − "), ", ".join(cell.reading) or "as stated")
        effect = cell.effect
        if effect is None:
            return cls(*about, outcome=str(claim.outcomes[cell] or "missing"), untested=cell.untested)
        return cls(
            *about,
            outcome=str(claim.outcomes[cell]),
            untested=cell.untested,
            effect=in_unit(effect, effect.mean),
            of_what=effect.of_what,
            interval=interval_text(effect),
            remark=remark(effect),
            won=f"{effect.won:.0%}",
            num_seeds=effect.num_seeds,
            loss_difference=percent(effect.loss_difference),
            left="–" if cell.left is None else percent(cell.left).removeprefix("+"),
        )


@dataclass(frozen=True)
class ClaimTable:
    """Parts down, readings across; None where the two do not meet."""

    readings: tuple[str, ...]
    rows: dict[str, tuple[Evidence | None, ...]]

    @classmethod
    def of(cls, evidence: Sequence[Evidence]) -> "ClaimTable":
        """All cells of a claim, in their order."""
        readings = tuple(dict.fromkeys(one.reading for one in evidence))
        known = {(one.row, one.reading): one for one in evidence}
        rows = dict.fromkeys(one.row for one in evidence)
        return cls(readings, {row: tuple(known.get((row, reading)) for reading in readings) for row in rows})


MARKS = {Outcome.HOLDS: "✓", Outcome.FAILS: "✕", Outcome.OPEN: "?", Outcome.CANNOT_SAY: "–"}
"""Outcome -> how it is drawn in the table."""


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

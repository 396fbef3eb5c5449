"""Claims of the paper, each judged by a rule that was fixed before any run.

A claim is a set of comparisons: every data set, every reading of what the paper leaves open. On one data set it is

    reproduced       the 95% interval lies on the claimed side under every reading
    partly           under the primary reading only (or under it and some others)
    not reproduced   under the primary reading it lies on the other side, or within the margin around zero
    inconclusive     the interval under the primary reading is too wide to say

and over several data sets it is the weakest of them. A claim of equality holds where the interval lies within the
margin, and fails where the interval excludes the margin. A bound holds where it holds for every single seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from gradorder_lab.statistics import Effect

Kind = Literal["lower", "equal", "different", "always"]


class Outcome(StrEnum):
    """What one comparison says of the claim."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


class Verdict(StrEnum):
    """What all comparisons say of it, strongest first."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    INCONCLUSIVE = "inconclusive"
    NOT_REPRODUCED = "not reproduced"
    NOT_TESTED = "not tested at this size"


@dataclass(frozen=True)
class Comparison:
    """One paired comparison.

    Args:
        data: the data set.
        what: the two things compared, as "descending - random".
        reading: how the paper was read, as "1/(1+t), literal".
        is_primary: whether this is the primary reading.
        kind: what is claimed of the effect: that it lies below 0, within the margin, on any side of 0 but not at it,
            or that it is below 0 for every single seed.
        effect: None where the runs are missing.
    """

    data: str
    what: str
    reading: str
    is_primary: bool
    kind: Kind
    effect: Effect | None

    @property
    def outcome(self) -> Outcome | None:
        """What it says; None where there is nothing to judge."""
        if self.effect is None:
            return None
        holds, fails = _JUDGES[self.kind](self.effect)
        if holds:
            return Outcome.HOLDS
        return Outcome.FAILS if fails else Outcome.OPEN


def _judge_lower(effect: Effect) -> tuple[bool, bool]:
    return effect.is_lower, effect.is_higher or effect.is_within_margin


def _judge_equal(effect: Effect) -> tuple[bool, bool]:
    return effect.is_within_margin, effect.is_outside_margin


def _judge_different(effect: Effect) -> tuple[bool, bool]:
    return effect.is_lower or effect.is_higher, effect.is_within_margin


def _judge_always(effect: Effect) -> tuple[bool, bool]:
    return effect.won == 1, effect.won < 1


_JUDGES = {"lower": _judge_lower, "equal": _judge_equal, "different": _judge_different, "always": _judge_always}


@dataclass(frozen=True)
class Claim:
    """A claim and everything that was compared for it.

    Args:
        name: as C1.
        text: what the paper says, in our words.
        comparisons: all of them.
        figures: the names of the figures that show it.
        note: what a reader must know beside the verdict.
    """

    name: str
    text: str
    comparisons: tuple[Comparison, ...]
    figures: tuple[str, ...] = ()
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """The weakest over the data sets."""
        return weakest([self.verdict_on(data) for data in self.data])

    @property
    def data(self) -> list[str]:
        """The data sets, in order."""
        return list(dict.fromkeys(comparison.data for comparison in self.comparisons))

    def verdict_on(self, data: str) -> Verdict:
        """The verdict on one data set."""
        return _verdict([comparison for comparison in self.comparisons if comparison.data == data])

    def headline_on(self, data: str) -> Comparison | None:
        """The comparison to show first: of the primary ones, that which is furthest from what was claimed."""
        primary = [c for c in self.comparisons if c.data == data and c.is_primary and c.effect is not None]
        return max(primary, key=_distance_from_claim, default=None)


def _verdict(comparisons: Sequence[Comparison]) -> Verdict:
    primary = [comparison.outcome for comparison in comparisons if comparison.is_primary]
    if not primary or None in primary:
        return Verdict.NOT_TESTED
    if Outcome.FAILS in primary:
        return Verdict.NOT_REPRODUCED
    if Outcome.OPEN in primary:
        return Verdict.INCONCLUSIVE
    every = [comparison.outcome for comparison in comparisons]
    return Verdict.REPRODUCED if set(every) == {Outcome.HOLDS} else Verdict.PARTLY


def weakest(verdicts: Sequence[Verdict]) -> Verdict:
    """The last of them in the order of `Verdict`: one data set that was not tested leaves the whole untested."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.NOT_TESTED)


def _distance_from_claim(comparison: Comparison) -> float:
    effect = comparison.effect
    assert effect is not None  # noqa: S101 - `headline` asks only where there is one
    distances = {
        "lower": effect.high,
        "equal": max(effect.high, -effect.low),
        "different": -abs(effect.mean),
        "always": effect.mean - effect.won,
    }
    return distances[comparison.kind]

"""Claims of the paper and the rule that judges them, in its second version.

A claim is a set of paired comparisons: every data set, every reading of what the paper leaves open. A comparison counts
where its runs test the claim at all; what is missing for that is said beside it. It

    holds   where the interval lies on the claimed side of zero and the effect is at least the smallest that matters
            (a claim of equality: where the interval lies within the margin)
    fails   where the same is true of the other side, or where the interval shows that the effect is too small to matter
            (equality: where the interval excludes the margin)
    open    elsewhere

Intervals are of 95%; over the primary comparisons of a claim, which decide together, by Holm's correction. On one data
set the claim is

    reproduced       it holds under every reading that counts
    partly           it holds under the primary reading, not under every other
    not reproduced   it fails under the primary reading
    inconclusive     neither can be said
    not tested       the runs are missing, or none of them tests it

The primary reading is the first, in the order of the readings, that counts. Over several data sets the claim is the
weakest of those where it is tested. A bound holds where it holds for every single seed.

The rule's first version was written before the published runs. It is kept so that both verdicts can be shown where they
differ. Its effects were shares of random's F - F* with a margin of 5% (half a point of accuracy), an effect of any size
could decide, and runs counted that hardly moved: see `WHY_REVISED`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Literal

from gradorder_lab.judge.effects import LEVEL, MARGINS, Effect

ClaimKind = Literal["lower", "equal", "different", "always"]


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
        rank: the place of this reading in the order of readings; 0 is meant to be the primary one.
        kind: what is claimed of the effect: that it lies below 0, within the margin, on any side of 0 but not at it,
            or that it is below 0 for every single seed.
        effect: None where the runs are missing.
        untested: why these runs do not test the claim; empty where they do.
        first: what it was under the first version of the rule.
    """

    data: str
    what: str
    reading: str
    rank: int
    kind: ClaimKind
    effect: Effect | None
    untested: str = ""
    first: Literal["primary", "reading", "none"] = "reading"

    @property
    def counts(self) -> bool:
        """Whether its runs, if they are there, test the claim."""
        return not self.untested

    @property
    def outcome(self) -> Outcome | None:
        """What it says by itself; None where there is nothing to judge."""
        return self.outcome_at(1 - LEVEL)

    def outcome_at(self, left_out: float) -> Outcome | None:
        """What it says by an interval that leaves out this share."""
        if self.effect is None or self.untested:
            return None
        outcome, needed = self.decision
        return outcome if needed <= left_out else Outcome.OPEN

    @property
    def decision(self) -> tuple[Outcome, float]:
        """What it would say by an interval short enough, and what share that would leave out."""
        effect = self.effect
        assert effect is not None  # noqa: S101 - asked only where there is one
        if self.kind == "always":
            return (Outcome.HOLDS if effect.won == 1 else Outcome.FAILS), 0.0
        holds, fails = _ROOMS[self.kind](effect)
        best = max(holds, fails)
        return (Outcome.HOLDS if holds >= fails else Outcome.FAILS), effect.level_at(best)


def _rooms_if_lower(effect: Effect) -> tuple[float, float]:
    """How wide the interval may be on either side of the mean to say that it is lower, and that it is not."""
    size = abs(effect.mean)
    matters = size >= effect.smallest
    too_small = effect.smallest - size
    is_lower = matters and effect.mean < 0
    return (size, too_small) if is_lower else (0.0, max(size if matters else 0.0, too_small))


def _rooms_if_equal(effect: Effect) -> tuple[float, float]:
    inside = effect.margin - abs(effect.mean)
    return inside, -inside


def _rooms_if_different(effect: Effect) -> tuple[float, float]:
    size = abs(effect.mean)
    return (size if size >= effect.smallest else 0.0), effect.smallest - size


_ROOMS = {"lower": _rooms_if_lower, "equal": _rooms_if_equal, "different": _rooms_if_different}


@dataclass(frozen=True)
class Claim:
    """A claim and everything that was compared for it.

    Args:
        name: as C1.
        text: what the paper says, in our words.
        comparisons: all of them.
        note: what a reader must know beside the verdict.
        brief: the text in a few words, for where all claims stand together.
    """

    name: str
    text: str
    comparisons: tuple[Comparison, ...]
    note: str = ""
    brief: str = ""

    @property
    def verdict(self) -> Verdict:
        """The weakest over the data sets where it is tested; missing runs leave the whole untested."""
        tested = [data for data in self.data if any(one.counts for one in self._on(data))]
        return weakest([self.verdict_on(data) for data in tested])

    @property
    def data(self) -> list[str]:
        """The data sets, in order."""
        return list(dict.fromkeys(comparison.data for comparison in self.comparisons))

    def verdict_on(self, data: str) -> Verdict:
        """The verdict on one data set."""
        primary = [self.outcome_of(one) for one in self.primary_on(data)]
        return verdict_by(primary, [self.outcome_of(one) for one in self._on(data) if one.counts])

    def primary_on(self, data: str) -> list[Comparison]:
        """The comparisons of the first reading that counts."""
        counting = [one for one in self._on(data) if one.counts]
        rank = min((one.rank for one in counting), default=None)
        return [one for one in counting if one.rank == rank]

    def is_primary(self, comparison: Comparison) -> bool:
        """Whether it is one of those that decide."""
        return comparison in self.primary_on(comparison.data)

    def outcome_of(self, comparison: Comparison) -> Outcome | None:
        """What a comparison says, the primary ones by Holm's correction over all of them."""
        left_out = self._corrected.get(comparison, 1 - LEVEL)
        return comparison.outcome_at(left_out)

    @property
    def readings(self) -> tuple[int, int]:
        """In how many readings it holds, of how many that count and have been run: (n, m)."""
        readings: dict[tuple[str, str], list[Outcome]] = {}
        for one in self.comparisons:
            outcome = self.outcome_of(one)
            if outcome is not None:
                readings.setdefault((one.data, one.reading), []).append(outcome)
        return sum(set(found) == {Outcome.HOLDS} for found in readings.values()), len(readings)

    def headline_on(self, data: str) -> Comparison | None:
        """The comparison to show first: of those that decide, the one furthest from what was claimed."""
        primary = [one for one in self.primary_on(data) if one.effect is not None]
        outcomes = {self.outcome_of(one) for one in primary}
        decisive = next((one for one in (Outcome.FAILS, Outcome.OPEN) if one in outcomes), Outcome.HOLDS)
        deciding = [one for one in primary if self.outcome_of(one) == decisive]
        return max(deciding, key=_distance_from_claim, default=None)

    def exception_on(self, data: str) -> Comparison | None:
        """Where it is partly reproduced, what keeps it from the whole: the further reading furthest from the claim."""
        if self.verdict_on(data) != Verdict.PARTLY:
            return None
        others = [one for one in self._on(data) if one.counts and self.outcome_of(one) != Outcome.HOLDS]
        return max((one for one in others if one.effect is not None), key=_distance_from_claim, default=None)

    def untested_on(self, data: str) -> str:
        """Why the reading that was meant to be the primary one does not test the claim; empty where it does."""
        on_data = self._on(data)
        first = min(one.rank for one in on_data)
        return next((one.untested for one in on_data if one.rank == first and one.untested), "")

    @property
    def deciding_data(self) -> str | None:
        """The first data set that has the verdict of the whole."""
        return next((data for data in self.data if self.verdict_on(data) == self.verdict), None)

    @property
    def num_seeds(self) -> int:
        """Of the comparison that decides; 0 where nothing has been run."""
        deciding = None if self.deciding_data is None else self.headline_on(self.deciding_data)
        return 0 if deciding is None or deciding.effect is None else deciding.effect.num_seeds

    def _on(self, data: str) -> list[Comparison]:
        return [comparison for comparison in self.comparisons if comparison.data == data]

    @cached_property
    def _corrected(self) -> dict[Comparison, float]:
        """Primary comparison -> the share that its interval leaves out: Holm's step-down procedure."""
        primary = [one for data in self.data for one in self.primary_on(data)]
        judged = [one for one in primary if one.effect is not None and one.kind != "always"]
        return holm({one: one.decision[1] for one in judged}, 1 - LEVEL)


def verdict_by(primary: Sequence[Outcome | None], every: Sequence[Outcome | None]) -> Verdict:
    """What the primary comparisons and all of them come to; None is one that is missing: it does not hold."""
    if not primary or None in primary:
        return Verdict.NOT_TESTED
    if Outcome.FAILS in primary:
        return Verdict.NOT_REPRODUCED
    if Outcome.OPEN in primary:
        return Verdict.INCONCLUSIVE
    return Verdict.REPRODUCED if set(every) == {Outcome.HOLDS} else Verdict.PARTLY


def holm(needed: dict[Comparison, float], left_out: float) -> dict[Comparison, float]:
    """The share that each may leave out so that all of them together leave out no more than `left_out`."""
    shares: dict[Comparison, float] = {}
    for number, one in enumerate(sorted(needed, key=needed.__getitem__)):
        shares[one] = left_out / (len(needed) - number)
        if needed[one] > shares[one]:  # neither this one nor any that needs more is decided
            return shares | {other: shares[one] for other in needed if other not in shares}
    return shares


class Agreement(StrEnum):
    """What a verdict says beside another one on the same claim, from more runs."""

    AGREES = "agree"
    OPEN = "cannot say"
    DIFFERS = "differ"


def agreement(here: Verdict, before: Verdict) -> Agreement:
    """Whether what was run here says the same as what was run before."""
    if {here, before} & {Verdict.NOT_TESTED, Verdict.INCONCLUSIVE}:
        return Agreement.OPEN
    return Agreement.AGREES if here == before else Agreement.DIFFERS


def weakest(verdicts: Sequence[Verdict]) -> Verdict:
    """The last of them in the order of `Verdict`: one data set whose runs are missing leaves the whole untested."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.NOT_TESTED)


def counted(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """How often each occurs, strongest first."""
    found = list(verdicts)
    return {verdict: found.count(verdict) for verdict in Verdict if verdict in found}


def _distance_from_claim(comparison: Comparison) -> float:
    effect = comparison.effect
    assert effect is not None  # noqa: S101 - `headline_on` asks only where there is one
    distances = {
        "lower": effect.high,
        "equal": max(effect.high, -effect.low),
        "different": -abs(effect.mean),
        "always": effect.mean - effect.won,
    }
    return distances[comparison.kind]


# ---- the first version ----

WHY_REVISED = (
    "The rule was revised once, after the published runs: its first version counted runs that hardly move (C2 on the "
    "literal iris held by 10⁻⁹, C6 on the literal Boston was decided by 0.0003% in a run that brought F − F* down by "
    "0.1%), took noise floors for a difference (C1), and decided by single comparisons of three seeds among many "
    "(C13). The second version asks first whether a run tests the claim, measures effects on F itself "
    "by what the run brought down, needs an effect that matters on either side, and corrects for many comparisons; "
    "where its verdict differs, the first one stands beside it."
)


def first_verdict(claim: Claim) -> Verdict:
    """The verdict by the first version, from the same runs."""
    known = [one for one in claim.comparisons if one.first != "none"]
    data_sets = dict.fromkeys(one.data for one in known)
    verdicts = []
    for data in data_sets:
        comparisons = [one for one in known if one.data == data]
        primary = [_first_outcome(one) for one in comparisons if one.first == "primary"]
        verdicts.append(verdict_by(primary, [_first_outcome(one) for one in comparisons]))
    return weakest(verdicts)


def _first_outcome(comparison: Comparison) -> Outcome | None:
    effect = comparison.effect
    if effect is None:
        return None
    margin = MARGINS["points" if effect.unit == "points" else "excess"]
    low, high = (effect.excess_factor * end for end in (effect.low, effect.high))
    within = low > -margin and high < margin
    holds, fails = {
        "lower": (high < 0, low > 0 or within),
        "equal": (within, low > margin or high < -margin),
        "different": (high < 0 or low > 0, within),
        "always": (effect.won == 1, effect.won < 1),
    }[comparison.kind]
    return Outcome.HOLDS if holds else Outcome.FAILS if fails else Outcome.OPEN

"""Claims of the paper and the rule that judges them, in its third version.

A claim is a table. Its rows are the parts that the paper states, its columns the readings that the paper leaves open.
No reading is preferred. A cell is one paired comparison over seeds, and it

    holds        "lower": the interval lies below zero and the effect is at least the smallest that matters
                 "about the same": the interval lies within the margin
                 "different": the interval excludes zero and the effect is at least the smallest that matters
    fails        "lower": the interval lies above zero, or within plus or minus the smallest effect that matters
                 "about the same": the interval excludes the margin
                 "different": the interval lies within plus or minus the smallest effect that matters
    is open      the interval is too wide for either
    cannot say   its runs do not test the claim; the cell has the number that shows it

Intervals are of 95%, with Holm's correction over all cells of the claim. A bound holds if it holds for every seed. The
verdict counts the cells that can say something:

    reproduced       all of them hold
    partly           some hold, the others fail or are open
    not reproduced   none holds, and at least one fails
    inconclusive     none holds and none fails
    not tested       there is no such cell

`docs/laboratory.md` has the verdicts of the two earlier versions and the reasons for revising them.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Literal, TypeVar

from gradorder_lab.judge.effects import LEVEL, Effect

ClaimKind = Literal["lower", "equal", "different", "always"]
Key = TypeVar("Key", bound=Hashable)


class Outcome(StrEnum):
    """What one cell says of the claim."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"
    CANNOT_SAY = "cannot say"


class Verdict(StrEnum):
    """What all cells say of it, strongest first."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    INCONCLUSIVE = "inconclusive"
    NOT_REPRODUCED = "not reproduced"
    NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Cell:
    """One paired comparison.

    Args:
        part: what the paper states, from the general to the particular: ("2-layer net", "batch 128", "sort within").
        compared: the two methods, as "descending - random".
        reading: how the paper was read, one entry for each open question; the same questions for all cells of a claim.
        kind: what is claimed of the effect: below 0, within the margin, not 0, or below 0 for every single seed.
        effect: None if the runs are missing.
        untested: why these runs do not test the claim; empty if they do.
        left: the share of F - F* that random order leaves: at the end of the run, or at the end of a random warm-up.
        name: for what refers to it, such as the page's answer; empty where nothing does.
    """

    part: tuple[str, ...]
    compared: str
    reading: tuple[str, ...]
    kind: ClaimKind
    effect: Effect | None
    untested: str = ""
    left: float | None = None
    name: str = ""

    @property
    def key(self) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
        """What identifies it within its claim, at any size."""
        return self.part, self.compared, self.reading

    @property
    def is_missing(self) -> bool:
        """Whether its runs have not been made."""
        return self.effect is None and not self.untested

    def outcome(self, left_out: float = 1 - LEVEL) -> Outcome | None:
        """What it says by an interval that leaves out this share; None if its runs are missing."""
        if self.untested:
            return Outcome.CANNOT_SAY
        if self.effect is None:
            return None
        outcome, needed = self.decision(self.effect)
        return outcome if needed <= left_out else Outcome.OPEN

    def decision(self, effect: Effect) -> tuple[Outcome, float]:
        """What it would say by an interval narrow enough, and the share that such an interval leaves out."""
        if self.kind == "always":
            return (Outcome.HOLDS if effect.won == 1 else Outcome.FAILS), 0.0
        holds, fails = _ROOMS[self.kind](effect)
        outcome = Outcome.HOLDS if holds >= fails else Outcome.FAILS
        return outcome, effect.level_at(max(holds, fails))


def _room_if_lower(effect: Effect) -> tuple[float, float]:
    """How far the interval may reach from its mean to say that the effect is below zero, and that it is not."""
    size = abs(effect.mean)
    within = effect.smallest - size
    if effect.mean < 0:
        return (size if within <= 0 else 0.0), within
    return 0.0, max(size, within)


def _room_if_equal(effect: Effect) -> tuple[float, float]:
    within = effect.margin - abs(effect.mean)
    return within, -within


def _room_if_different(effect: Effect) -> tuple[float, float]:
    size = abs(effect.mean)
    within = effect.smallest - size
    return (size if within <= 0 else 0.0), within


_ROOMS: Mapping[str, Callable[[Effect], tuple[float, float]]] = {
    "lower": _room_if_lower,
    "equal": _room_if_equal,
    "different": _room_if_different,
}


@dataclass(frozen=True)
class Count:
    """How many cells hold, fail, are open, cannot say, and lack their runs."""

    holds: int
    fails: int
    open: int
    cannot_say: int
    missing: int

    @property
    def judged(self) -> int:
        """The cells that can say something."""
        return self.holds + self.fails + self.open

    @property
    def verdict(self) -> Verdict:
        """The rule."""
        if not self.judged:
            return Verdict.NOT_TESTED
        if self.holds:
            return Verdict.REPRODUCED if self.holds == self.judged else Verdict.PARTLY
        return Verdict.NOT_REPRODUCED if self.fails else Verdict.INCONCLUSIVE


@dataclass(frozen=True)
class Claim:
    """A claim and all of its cells.

    Args:
        name: as C1.
        text: what the paper says, in our words.
        cells: all of them.
        note: what a reader must know beside the verdict.
        brief: the text in a few words, for a list of all claims.
        is_reduced: whether data, width or epochs are smaller than the paper's.
    """

    name: str
    text: str
    cells: tuple[Cell, ...]
    note: str = ""
    brief: str = ""
    is_reduced: bool = False

    @cached_property
    def outcomes(self) -> Mapping[Cell, Outcome | None]:
        """Each cell with what it says, by Holm's correction over all cells that can say something."""
        needed = {
            cell: cell.decision(cell.effect)[1]
            for cell in self.cells
            if cell.effect is not None and not cell.untested and cell.kind != "always"
        }
        left_out = holm(needed, 1 - LEVEL)
        return {cell: cell.outcome(left_out.get(cell, 1 - LEVEL)) for cell in self.cells}

    @property
    def judged(self) -> list[Cell]:
        """The cells that can say something."""
        return [cell for cell, outcome in self.outcomes.items() if outcome not in {None, Outcome.CANNOT_SAY}]

    @property
    def count(self) -> Count:
        """How many cells say what."""
        found = list(self.outcomes.values())
        outcomes = (Outcome.HOLDS, Outcome.FAILS, Outcome.OPEN, Outcome.CANNOT_SAY, None)
        return Count(*(found.count(outcome) for outcome in outcomes))

    @property
    def verdict(self) -> Verdict:
        """All, some or none."""
        return self.count.verdict

    @property
    def seeds(self) -> tuple[int, int]:
        """The fewest and the most paired seeds of a cell that is judged; zeros if there is none."""
        found = [cell.effect.num_seeds for cell in self.judged if cell.effect is not None]
        return (min(found), max(found)) if found else (0, 0)

    def only(self, cells: Iterable[Cell]) -> "Claim":
        """The claim with those of its cells that correspond to these, for example to those run at another size."""
        keys = {cell.key for cell in cells}
        return replace(self, cells=tuple(cell for cell in self.cells if cell.key in keys))


def holm(needed: Mapping[Key, float], left_out: float) -> dict[Key, float]:
    """The share that each interval may leave out so that all of them together leave out no more than `left_out`.

    >>> holm({"a": 0.02, "b": 0.04}, 0.05)
    {'a': 0.025, 'b': 0.05}
    >>> holm({"a": 0.03, "b": 0.04}, 0.05)
    {'a': 0.025, 'b': 0.025}
    """
    shares: dict[Key, float] = {}
    for number, one in enumerate(sorted(needed, key=needed.__getitem__)):
        shares[one] = left_out / (len(needed) - number)
        if needed[one] > shares[one]:  # neither this one nor any that needs more is decided
            return shares | {other: shares[one] for other in needed if other not in shares}
    return shares


@dataclass(frozen=True)
class Agreement:
    """How many cells are decided in two sets of runs, and how many of them alike."""

    alike: int
    decided: int


def agreement(here: Claim, elsewhere: Claim) -> Agreement:
    """Cell by cell: those that hold or fail in both sets of runs."""
    decided = {Outcome.HOLDS, Outcome.FAILS}
    known = {cell.key: outcome for cell, outcome in elsewhere.outcomes.items()}
    pairs = [(outcome, known.get(cell.key)) for cell, outcome in here.outcomes.items()]
    both = [ours == theirs for ours, theirs in pairs if ours in decided and theirs in decided]
    return Agreement(sum(both), len(both))


def counted(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """How often each occurs, strongest first."""
    found = list(verdicts)
    return {verdict: found.count(verdict) for verdict in Verdict if verdict in found}

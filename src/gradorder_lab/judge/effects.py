"""What two recipes say against each other over the seeds of both: an effect, its interval, the share of seeds won."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal, Self

import numpy as np
from scipy import special

from gradorder_lab.runs.recipe import Array, Recipe
from gradorder_lab.runs.summary import Summary

Unit = Literal["fall", "excess", "points"]
"""What an effect is measured by: random's fall of F over the run, random's F - F* at its end, points of accuracy."""

MARGINS: dict[Unit, float] = {"fall": 0.01, "excess": 0.05, "points": 0.5}
"""What "about the same" allows."""

SMALLEST: dict[Unit, float] = {"fall": 0.001, "excess": 0.05, "points": 0.1}
"""The smallest effect that matters; on F - F* it begins where "about the same" ends."""

_OF_WHAT: dict[Unit, str] = {
    "fall": "of random's fall of F",
    "excess": "of random's final F − F*",
    "points": "of error",
}

LEVEL = 0.95

MOVED = 0.01
"""The part of F - F* at the start that a run has to bring down to be a test of anything."""


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
        share_of: what a share is a share of, where the unit does not say it.
    """

    mean: float
    low: float
    high: float
    won: float
    num_seeds: int
    loss_difference: float = float("nan")
    unit: Unit = "fall"
    share_of: str = ""

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

    @property
    def of_what(self) -> str:
        """What it is a share of, as "of random's fall of F"; of points, what they are points of."""
        return self.share_of or _OF_WHAT[self.unit]


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


# ---- from the runs ----


def effect(
    summary: Summary, ours: Recipe, theirs: Recipe, *, random: Recipe, column: str = "excess", unit: Unit = "fall"
) -> Effect | None:
    """How much lower `ours` ended than `theirs`, as a share of random's fall, or, by `unit`, of random's end.

    None where runs are missing. The fall of F is that of F - F*: the column is either, or a training loss.
    """
    runs = paired(summary, (ours, theirs, random))
    if runs is None:
        return None
    of_ours, of_theirs, of_random = (one[column] for one in runs)
    scale = float(of_random.mean()) if unit == "excess" else _fall(summary, random, column)
    found = Effect.of(of_ours, of_theirs, scale, unit)
    relative = float((runs[0]["loss"] / runs[1]["loss"] - 1).mean()) if "loss" in runs[0] else float("nan")
    of = "of full random's fall of the training loss" if column == "train_loss" else ""
    return replace(found, loss_difference=relative, share_of=of)


def effect_at_end(summary: Summary, ours: Recipe, theirs: Recipe, column: str, of: str) -> Effect | None:
    """How much lower a column of `ours` ended than that of `theirs`, as a share of the mean of `theirs`."""
    runs = paired(summary, (ours, theirs))
    if runs is None:
        return None
    found = Effect.of(runs[0][column], runs[1][column], float(runs[1][column].mean()), "excess")
    return replace(found, share_of=of)


def effect_of_columns(
    summary: Summary, recipe: Recipe, columns: tuple[str, str], *, scale: str, won: str, of: str
) -> Effect | None:
    """How much lower the first column is than the second, as a share of `scale`; the column `won` says where."""
    runs = summary.get(recipe)
    if runs is None:
        return None
    ours, theirs, scales = (runs.last[name] for name in (*columns, scale))
    return replace(
        Effect.of(ours / scales, theirs / scales, unit="excess"), won=float(runs.last[won].mean()), share_of=of
    )


def accuracy_effect(summary: Summary, ours: Recipe, theirs: Recipe, column: str) -> Effect | None:
    """How much lower the error of `ours` ended than that of `theirs`, in points; `column` is an accuracy in percent."""
    runs = paired(summary, (ours, theirs))
    return None if runs is None else Effect.of(-runs[0][column], -runs[1][column], unit="points")


def difference_of_effects(
    summary: Summary, here: Sequence[Recipe], there: Sequence[Recipe], unit: Unit = "fall"
) -> Effect | None:
    """How much lower the effect, first - second as a share of the second's fall of F, is `here` than `there`.

    By `unit`, as a share of the second's F - F* at the end.
    """
    runs = paired(summary, (*here, *there))
    if runs is None:
        return None
    a, b, c, d = (one["excess"] for one in runs)
    falls = [_fall(summary, pair[1], "excess") for pair in (here, there)]
    scales = falls if unit == "fall" else [float(b.mean()), float(d.mean())]
    return Effect.of((a - b) / scales[0], (c - d) / scales[1], unit=unit)


def not_moved(summary: Summary, random: Recipe) -> str:
    """Why a comparison with this random run cannot say anything: it hardly moved; empty if it did, or is missing."""
    left = part_left(summary, random)
    if left is None or 1 - left >= MOVED:
        return ""
    return f"random order brought F − F* down by {100 * (1 - left):.2g}% of its start; {MOVED:.0%} is needed"


def part_left(summary: Summary, recipe: Recipe, epoch: float | None = None) -> float | None:
    """F − F*, mean over seeds, at this epoch or at the end, as a part of that at the start; None without such runs."""
    runs = summary.get(recipe)
    if runs is None or "excess" not in runs.bands:
        return None
    means = runs.bands["excess"].mean
    place = -1 if epoch is None else int(np.abs(runs.bands["epoch"].mean - epoch).argmin())
    return float(means[place] / means[0])


def _fall(summary: Summary, recipe: Recipe, column: str) -> float:
    runs = summary.get(recipe)
    if runs is None or column not in runs.bands:
        return float("nan")
    means = runs.bands[column].mean
    return float(means[0] - means[-1])


def paired(summary: Summary, recipes: Sequence[Recipe]) -> list[dict[str, Array]] | None:
    """The columns of each recipe, for the seeds that all of them were run with."""
    found = [summary.get(recipe) for recipe in recipes]
    runs = [one for one in found if one is not None]
    seeds = reduce(np.intersect1d, (one.seeds for one in runs)) if len(runs) == len(found) else ()
    if len(seeds) == 0:
        return None
    kept = [np.isin(one.seeds, seeds) for one in runs]
    return [{name: values[those] for name, values in one.last.items()} for one, those in zip(runs, kept, strict=True)]

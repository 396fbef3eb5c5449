"""What two recipes say against each other, over the seeds that both were run with."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradorder_lab.recipe import Recipe
from gradorder_lab.statistics import Effect
from gradorder_lab.summary import Array, RecipeSummary, Summary


def effect(summary: Summary, ours: Recipe, theirs: Recipe, *, scale: Recipe, column: str = "excess") -> Effect | None:
    """How much lower `ours` ended than `theirs`, as a share of the mean of `scale`; None where runs are missing."""
    runs = _paired(summary, (ours, theirs, scale))
    if runs is None:
        return None
    of_ours, of_theirs, of_scale = (one[column] for one in runs)
    relative = float((runs[0]["loss"] / runs[1]["loss"] - 1).mean()) if "loss" in runs[0] else float("nan")
    return Effect.of(of_ours, of_theirs, float(of_scale.mean()), relative)


def effect_of_columns(
    summary: Summary, recipe: Recipe, columns: tuple[str, str], *, scale: str, won: str
) -> Effect | None:
    """How much lower the first column is than the second, as a share of `scale`; the column `won` says where."""
    runs = summary.get(recipe)
    if runs is None:
        return None
    ours, theirs, scales = (runs.last[name] for name in (*columns, scale))
    found = Effect.of(ours / scales, theirs / scales, scale=1.0)
    return replace(found, won=float(runs.last[won].mean()))


def accuracy_effect(summary: Summary, ours: Recipe, theirs: Recipe, column: str) -> Effect | None:
    """How much lower the error of `ours` ended than that of `theirs`, in points; `column` is an accuracy in percent."""
    runs = _paired(summary, (ours, theirs))
    if runs is None:
        return None
    return replace(Effect.of(-runs[0][column], -runs[1][column], scale=1.0), unit="points")


def cost_effect(summary: Summary, ours: Recipe, theirs: Recipe, column: str, share: float) -> Effect | None:
    """How much less than `share` of what `theirs` spent `ours` did, as a share of what `theirs` spent."""
    runs = _paired(summary, (ours, theirs))
    if runs is None:
        return None
    spent = runs[1][column]
    return Effect.of(runs[0][column] / spent, share * np.ones_like(spent), scale=1.0)


def difference_of_effects(summary: Summary, here: Sequence[Recipe], there: Sequence[Recipe]) -> Effect | None:
    """How much lower the relative effect (first - second) / mean of the second is `here` than `there`."""
    runs = _paired(summary, (*here, *there))
    if runs is None:
        return None
    a, b, c, d = (one["excess"] for one in runs)
    return Effect.of((a - b) / b.mean(), (c - d) / d.mean(), scale=1.0)


def _paired(summary: Summary, recipes: Sequence[Recipe]) -> list[dict[str, Array]] | None:
    """The columns of each recipe, for the seeds that all of them were run with."""
    found = [summary.get(recipe) for recipe in recipes]
    runs = [one for one in found if one is not None]
    seeds = set.intersection(*(set(one.seeds.tolist()) for one in runs)) if len(runs) == len(found) else set()
    return [_columns(one, sorted(seeds)) for one in runs] if seeds else None


def _columns(runs: RecipeSummary, seeds: Sequence[int]) -> dict[str, Array]:
    wanted = np.isin(runs.seeds, seeds)
    return {name: values[wanted] for name, values in runs.last.items()}

"""What the runs of every recipe say together: the values at the end, seed by seed, and the curves over all seeds.

Claims and figures are functions of a summary. It is made from a store, or read from a table of results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gradorder_lab.runs.recipe import Array, Recipe, Rows, Setting
from gradorder_lab.runs.store import Store

NOT_NOTED = -1
"""In place of an environment that nobody has written down."""

_QUANTILES = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Band:
    """A column over the seeds, one number per row: the mean, and what 90% of the seeds lie between."""

    mean: Array
    low: Array
    high: Array

    @classmethod
    def of_all(cls, tables: Array) -> list[Self]:
        """From tables with one line per seed, all at once: numpy takes longer for each than for all of them."""
        low, high = np.quantile(tables, _QUANTILES, axis=1)
        return [cls(*band) for band in zip(tables.mean(1), low, high, strict=True)]

    def with_others(self, other: "Band", share: float) -> "Band":
        """Over the seeds of both, of which the other has this share: the mean, and at least what 90% lie between."""
        mean = (1 - share) * self.mean + share * other.mean
        return Band(mean, np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True, eq=False)
class RecipeSummary:
    """All runs of one recipe.

    Args:
        seeds: in increasing order.
        last: each column at the end, one number per seed.
        bands: each column over the run.
        environments: which of the summary's each seed was run in, or NOT_NOTED; empty where nothing is known.
    """

    seeds: NDArray[np.int64]
    last: Mapping[str, Array]
    bands: Mapping[str, Band]
    environments: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, rows: Mapping[int, Rows], environments: Sequence[int] = ()) -> Self:
        """From the rows of every seed: of the columns that all of them have."""
        names = [name for name in next(iter(rows.values())) if all(name in run for run in rows.values())]
        tables = np.array([[run[name] for run in rows.values()] for name in names])
        return cls(
            np.array(list(rows), dtype=np.int64),
            dict(zip(names, tables[:, :, -1].copy(), strict=True)),
            dict(zip(names, Band.of_all(tables), strict=True)),
            np.array(environments, dtype=np.int64),
        )

    def with_others(self, other: "RecipeSummary") -> "RecipeSummary":
        """With the seeds that only the other has."""
        new = ~np.isin(other.seeds, self.seeds)
        if not new.any():
            return self
        share = float(new.sum() / (new.sum() + len(self.seeds)))
        seeds = np.concatenate([self.seeds, other.seeds[new]])
        order = seeds.argsort(kind="stable")
        last = {name: values for name, values in self.last.items() if name in other.last}
        bands = {name: band for name, band in self.bands.items() if name in other.bands}
        return RecipeSummary(
            seeds[order],
            {name: np.concatenate([values, other.last[name][new]])[order] for name, values in last.items()},
            {name: band.with_others(other.bands[name], share) for name, band in bands.items()},
            np.concatenate([self.origins, other.origins[new]])[order],
        )

    @property
    def origins(self) -> NDArray[np.int64]:
        """One environment per seed."""
        return self.environments if len(self.environments) else np.full(len(self.seeds), NOT_NOTED)


@dataclass(frozen=True, eq=False)
class Summary:
    """The summaries of many recipes, by their identity, and the environments that their runs were made in."""

    recipes: Mapping[str, RecipeSummary]
    environments: tuple[Mapping[str, Setting], ...] = field(default=())

    @classmethod
    def of(cls, store: Store) -> Self:
        """From the runs that are there."""
        found = {}
        for identity, runs in groupby(store.every_run(), key=lambda run: run.identity):
            of_recipe = list(runs)
            rows = {run.seed: run.rows for run in of_recipe}
            found[identity] = RecipeSummary.of(rows, [run.environment for run in of_recipe])
        return cls(found, tuple(store.environments()))

    def get(self, recipe: Recipe) -> RecipeSummary | None:
        """The summary of this recipe, None where it was not run."""
        return self.recipes.get(recipe.identity)

    def with_others(self, other: "Summary") -> "Summary":
        """With the recipes and the seeds that only the other has."""
        recipes = dict(self.recipes)
        for identity, runs in other.recipes.items():
            moved = np.where(runs.origins == NOT_NOTED, NOT_NOTED, runs.origins + len(self.environments))
            theirs = RecipeSummary(runs.seeds, runs.last, runs.bands, moved)
            recipes[identity] = recipes[identity].with_others(theirs) if identity in recipes else theirs
        return Summary(recipes, (*self.environments, *other.environments))

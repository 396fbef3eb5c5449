"""What the runs of every recipe say together: the values at the end, seed by seed, and the curves over all seeds.

Claims and figures are functions of a summary. It is made from a store, or read from a file of results.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gradorder_lab.errors import LabError
from gradorder_lab.recipe import Recipe, Rows, Setting
from gradorder_lab.store import Store

Array = NDArray[np.float64]

_QUANTILES = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Band:
    """A column over the seeds, one number per row: the mean, and what 90% of the seeds lie between."""

    mean: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, values: Array) -> Self:
        """From one line per seed."""
        low, high = np.quantile(values, _QUANTILES, axis=0)
        return cls(values.mean(0), low, high)


@dataclass(frozen=True, eq=False)
class RecipeSummary:
    """All runs of one recipe.

    Args:
        seeds: in increasing order.
        first: each column where the first epoch has ended, one number per seed.
        last: each column at the end, one number per seed.
        bands: each column over the run.
    """

    seeds: NDArray[np.int64]
    first: Mapping[str, Array]
    last: Mapping[str, Array]
    bands: Mapping[str, Band]

    @classmethod
    def of(cls, rows: Mapping[int, Rows]) -> Self:
        """From the rows of every seed."""
        names = list(next(iter(rows.values())))
        tables = {name: np.array([run[name] for run in rows.values()]) for name in names}
        first_end = int(np.argmax(tables["epoch"][0] >= 1)) if "epoch" in tables else 0
        return cls(
            seeds=np.array(list(rows), dtype=np.int64),
            first={name: table[:, first_end].copy() for name, table in tables.items()},
            last={name: table[:, -1].copy() for name, table in tables.items()},
            bands={name: Band.of(table) for name, table in tables.items()},
        )


@dataclass(frozen=True, eq=False)
class Summary:
    """The summaries of many recipes, and the environments that their runs were made in."""

    recipes: Mapping[str, RecipeSummary]
    environments: tuple[Mapping[str, Setting], ...] = field(default=())

    @classmethod
    def of(cls, store: Store, recipes: Iterable[Recipe]) -> Self:
        """From the runs that are there."""
        found = {identity(recipe): rows for recipe in recipes if (rows := store.rows(recipe))}
        return cls(
            {name: RecipeSummary.of(rows) for name, rows in found.items()},
            tuple(store.environments()),
        )

    def get(self, recipe: Recipe) -> RecipeSummary | None:
        """The summary of this recipe, None where it was not run."""
        return self.recipes.get(identity(recipe))

    def save(self, path: Path) -> None:
        """Write a compressed file of plain arrays."""
        arrays: dict[str, NDArray[np.generic]] = {}
        for number, summary in enumerate(self.recipes.values()):
            for part, columns in (("first", summary.first), ("last", summary.last)):
                arrays |= {f"{number}/{part}/{name}": values for name, values in columns.items()}
            for name, band in summary.bands.items():
                # single precision is more than a picture shows, and halves the file
                table = np.array([band.mean, band.low, band.high], dtype=np.float32)
                arrays[f"{number}/bands/{name}"] = table
            arrays[f"{number}/seeds"] = summary.seeds
        arrays["names"] = np.array(list(self.recipes))
        arrays["environments"] = np.array(json.dumps([dict(facts) for facts in self.environments]))
        np.savez_compressed(path, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
        except (OSError, ValueError) as error:
            raise LabError(f"{path} cannot be read as results: {error}") from error
        recipes = {str(name): _loaded(arrays, number) for number, name in enumerate(arrays["names"])}
        return cls(recipes, tuple(json.loads(str(arrays["environments"]))))


def identity(recipe: Recipe) -> str:
    """The same for the same recipe, in any process, on any machine."""
    return json.dumps([recipe.experiment, recipe.revision, dict(recipe.settings)], sort_keys=True)


def _loaded(arrays: Mapping[str, NDArray[np.generic]], number: int) -> RecipeSummary:
    def columns(part: str) -> dict[str, Array]:
        start = f"{number}/{part}/"
        found = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
        return {name: array.astype(np.float64) for name, array in found.items()}

    bands = {name: Band(*table) for name, table in columns("bands").items()}
    return RecipeSummary(arrays[f"{number}/seeds"].astype(np.int64), columns("first"), columns("last"), bands)

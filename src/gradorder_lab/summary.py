"""What the runs of every recipe say together: the values at the end, seed by seed, and the curves over all seeds.

Claims and figures are functions of a summary. It is made from a store, or read from a file of results.
"""

import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

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
        last: each column at the end, one number per seed.
        bands: each column over the run.
    """

    seeds: NDArray[np.int64]
    last: Mapping[str, Array]
    bands: Mapping[str, Band]

    @classmethod
    def of(cls, rows: Mapping[int, Rows]) -> Self:
        """From the rows of every seed."""
        names = list(next(iter(rows.values())))
        tables = {name: np.array([run[name] for run in rows.values()]) for name in names}
        return cls(
            seeds=np.array(list(rows), dtype=np.int64),
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
        """Write a compressed file of a few plain arrays: all recipes one after the other."""
        index = [_IndexEntry.of(name, runs) for name, runs in self.recipes.items()]
        parts = list(zip(index, self.recipes.values(), strict=True))
        flat: dict[str, list[Any]] = {
            "seeds": [runs.seeds for runs in self.recipes.values()],
            "last": [runs.last[name] for entry, runs in parts for name in entry.columns],
            "mean": [runs.bands[name].mean for entry, runs in parts for name in entry.bands],
            # what a picture shows of a band needs no more digits, measured from its mean
            "low": [_offset(runs.bands[name], "low") for entry, runs in parts for name in entry.bands],
            "high": [_offset(runs.bands[name], "high") for entry, runs in parts for name in entry.bands],
        }
        text = json.dumps({"recipes": [asdict(entry) for entry in index], "environments": list(self.environments)})
        arrays = {name: np.concatenate(values) for name, values in flat.items()}
        np.savez_compressed(path, allow_pickle=False, index=np.array(text), **arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise LabError(f"{path} cannot be read as results: {error}") from error
        index = json.loads(str(arrays["index"]))
        cursor = _Cursor(arrays)
        recipes = {entry["name"]: cursor.runs(_IndexEntry(**entry)) for entry in index["recipes"]}
        return cls(recipes, tuple(index["environments"]))


@dataclass(frozen=True)
class _IndexEntry:
    """Where the numbers of one recipe end in the file: how many seeds and points there are, of which columns."""

    name: str
    num_seeds: int
    num_points: int
    columns: list[str]
    bands: list[str]

    @classmethod
    def of(cls, name: str, runs: RecipeSummary) -> Self:
        """Of a run of a single row the band says nothing that the seeds do not; nor do losses beside their excess."""
        num_points = max((len(band.mean) for band in runs.bands.values()), default=1)
        is_drawn = num_points > 1
        bands = [column for column in runs.bands if not (column == "loss" and "excess" in runs.bands)]
        return cls(name, len(runs.seeds), num_points, list(runs.last), bands if is_drawn else [])


class _Cursor:
    """Takes the arrays of a file apart again, in the order in which they were put together."""

    def __init__(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._arrays = arrays
        self._places = dict.fromkeys(arrays, 0)

    def _take(self, name: str, count: int) -> NDArray[np.generic]:
        place = self._places[name]
        self._places[name] += count
        return self._arrays[name][place : place + count]

    def runs(self, entry: _IndexEntry) -> RecipeSummary:
        """The next recipe."""
        seeds = self._take("seeds", entry.num_seeds).astype(np.int64)
        last = {name: self._take("last", entry.num_seeds).astype(np.float64) for name in entry.columns}
        return RecipeSummary(seeds, last, {name: self._band(entry.num_points) for name in entry.bands})

    def _band(self, num_points: int) -> Band:
        mean, low, high = (self._take(name, num_points).astype(np.float64) for name in ("mean", "low", "high"))
        return Band(mean, mean + low, mean + high)


def _offset(band: Band, end: Literal["low", "high"]) -> NDArray[np.float32]:
    values: Array = getattr(band, end)
    return (values - band.mean).astype(np.float32)


def identity(recipe: Recipe) -> str:
    """The same for the same recipe, in any process, on any machine."""
    return json.dumps([recipe.experiment, recipe.revision, dict(recipe.settings)], sort_keys=True)

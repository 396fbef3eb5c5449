"""The rows as Parquet and CSV, with a description of every column beside them.

From a store: one table per experiment, one line per row of every run. From the results that are shipped, which keep
the curves over all seeds and the ends of every seed: two tables per experiment, `curves` and `ends`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from gradorder_lab.runs import shipped
from gradorder_lab.runs.recipe import Setting
from gradorder_lab.runs.store import Store, StoredRun, has_runs
from gradorder_lab.runs.summary import RecipeSummary, Summary
from gradorder_lab.runs.whole_file import whole_file, write_whole

Columns = dict[str, Any]
Fields = dict[str, str]
"""Column -> "int64", "float64" or "string"."""

_LINES_AT_ONCE = 100_000
_CURVE_COLUMNS: Fields = {"num_seeds": "int64", "column": "string", "row": "int64"} | dict.fromkeys(
    ("mean", "low", "high"), "float64"
)

SETTING = "setting_"
"""What the columns of a recipe's settings begin with, so that none is taken for a number of the rows."""

RUN_COLUMNS: Fields = {
    "experiment": "string",
    "revision": "int64",
    "seed": "int64",
    "environment": "int64",
    "run_seconds": "float64",
    "row": "int64",
}
MEANINGS = {
    "experiment": "name of the experiment, as `gradorder list` gives it",
    "revision": "of the recipe: raised whenever the code gives other numbers for the same settings",
    "seed": "runs of one experiment with one seed share data, start and random orders: they are paired",
    "environment": "what the run was made with: place in environments.json, counted from 0",
    "run_seconds": "how long the whole run took",
    "row": "place of the row in its run, or of the point in its curve, counted from 0",
    "num_seeds": "how many seeds a curve is over",
    "column": "what the curve is of: one of the columns of rows",
    "mean": "of the column over the seeds",
    "low": "what 5% of the seeds lie below",
    "high": "what 5% of the seeds lie above",
    "epoch": "epochs done, in part where rows are noted within one",
    "updates": "steps of SGD done",
    "scored": "examples scored so far",
    "trained": "example gradients used for steps so far",
    "forward": "forward passes so far, in examples, scoring included",
    "backward": "backward passes so far, in examples, scoring included",
    "seconds": "seconds of training so far, scoring included, evaluation not",
    "score_seconds": "seconds of scoring among them",
    "processor_seconds": "the same of the processor: not longer for other work of the machine",
    "loss": "F, the mean loss over all examples",
    "excess": "F - F*",
    "train_loss": "mean loss over the training set",
    "train_accuracy": "in percent",
    "test_loss": "mean loss over the test set",
    "test_accuracy": "in percent",
    "theorem": "which of the paper's theorems applies",
    "measured": "squared distance to the optimum after the epoch",
    "first_order_sum": "sum of the step sizes times the norms of the gradients at the epoch's start",
    "pair_sum": "2 sum (n - i) C_i^2",
    "premise_share": "share of the examples that meet the premise of Lemma 1",
    "step_size": "of the theorem's condition",
    "step_limit": "of the theorem's condition",
    "distance": "term of the published bound: the squared distance at the start, contracted",
    "first_order": "term of the published bound",
    "epsilon_term": "term of the published bound",
    "published_bound": "right-hand side as published",
    "published_holds": "1 where the published bound holds, else 0",
    "corrected_bound": "right-hand side with its constants corrected",
    "corrected_holds": "1 where it holds, else 0",
    "tight_bound": "right-hand side with every term as measured",
    "tight_holds": "1 where it holds, else 0",
}
"""Column -> what it is. Columns that begin with "setting_" are the settings of the recipe."""


def export(out: Path, to: Path) -> list[Path]:
    """Write the rows of the store in `out`, or, where there is none, the shipped results; return the files."""
    to.mkdir(parents=True, exist_ok=True)
    if has_runs(out):
        with Store(out) as store:
            names = dict.fromkeys(name for name, _ in store.recipes())
            files = [file for name in names for file in _write_experiment(name, store, to)]
            environments: Sequence[Mapping[str, Setting]] = store.environments()
    else:
        summary = shipped.shipped_summary()
        files, environments = list(_write_summary(summary, to)), summary.environments
    made_with = json.dumps([dict(facts) for facts in environments], indent=1)
    return [*files, write_whole(to / "environments.json", made_with), _write_meanings(to)]


# ---- from a store ----


def _write_experiment(name: str, store: Store, to: Path) -> list[Path]:
    """Recipe by recipe: what is in memory at a time are the runs of one."""
    fields = RUN_COLUMNS | setting_fields([settings for one, settings in store.recipes() if one == name])
    fields |= dict.fromkeys(store.columns(name), "float64")
    runs = store.every_run(name)
    recipes = (list(group) for _, group in groupby(runs, key=lambda run: (run.revision, json.dumps(run.settings))))
    return _write(name, fields, (run_columns(group, fields) for group in recipes), to)


def setting_fields(every: Iterable[Mapping[str, Setting]]) -> Fields:
    """The narrowest type of each setting over all recipes: integers, numbers, or else text."""
    values: dict[str, list[Setting]] = {}
    for settings in every:
        for name, value in settings.items():
            values.setdefault(SETTING + name, []).append(value)
    return {name: _narrowest(found) for name, found in values.items()}


def _narrowest(values: Sequence[Setting]) -> str:
    given = [value for value in values if value is not None]
    if given and all(isinstance(value, int) and not isinstance(value, bool) for value in given):
        return "int64"
    if given and all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
        return "float64"
    return "string"


def run_columns(runs: Sequence[StoredRun], fields: Fields) -> Columns:
    """The lines of some runs, column by column; None where a run does not have the column."""
    parts = [_run_columns(run, fields) for run in runs]
    return {name: _joined_columns([part[name] for part in parts]) for name in fields}


def _run_columns(run: StoredRun, fields: Fields) -> Columns:
    num_rows = len(next(iter(run.rows.values())))
    about = _about(run.experiment, run.revision, run.settings) | {"seed": run.seed, "environment": run.environment}
    about |= {"run_seconds": run.seconds, "row": np.arange(num_rows)}
    return _filled(about | dict(run.rows), fields, num_rows)


def _about(experiment: str, revision: int, settings: Mapping[str, Setting]) -> Columns:
    return {"experiment": experiment, "revision": revision} | {SETTING + name: settings[name] for name in settings}


def _joined_columns(parts: Sequence[Any]) -> Any:  # noqa: ANN401 - arrays, or lists where something is missing
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [value for part in parts for value in part]


# ---- from the shipped results ----


def _write_summary(summary: Summary, to: Path) -> Iterator[Path]:
    recipes = [(json.loads(identity), runs) for identity, runs in summary.recipes.items()]
    for experiment in dict.fromkeys(name for (name, _, _), _ in recipes):
        every = [settings for (name, _, settings), _ in recipes if name == experiment]
        found = [(_about(*recipe), runs) for recipe, runs in recipes if recipe[0] == experiment]
        about: Fields = {"experiment": "string", "revision": "int64"} | setting_fields(every)
        ends = about | {"seed": "int64"} | dict.fromkeys([name for _, runs in found for name in runs.last], "float64")
        yield from _write(f"{experiment}-ends", ends, (_ends(*one, ends) for one in found), to)
        curves = about | _CURVE_COLUMNS
        drawn = [(recipe, runs) for recipe, runs in found if runs.bands]
        yield from _write(f"{experiment}-curves", curves, (_curves(*one, curves) for one in drawn), to) if drawn else []


def _ends(recipe: Columns, runs: RecipeSummary, fields: Fields) -> Columns:
    return _filled(recipe | {"seed": runs.seeds} | dict(runs.last), fields, len(runs.seeds))


def _curves(recipe: Columns, runs: RecipeSummary, fields: Fields) -> Columns:
    bands = runs.bands
    num_points = len(next(iter(bands.values())).mean)
    columns: Columns = {"num_seeds": len(runs.seeds)}
    columns |= {"column": [name for name in bands for _ in range(num_points)]}
    columns |= {"row": np.tile(np.arange(num_points), len(bands))}
    columns |= {end: np.concatenate([getattr(band, end) for band in bands.values()]) for end in ("mean", "low", "high")}
    return _filled(recipe | columns, fields, num_points * len(bands))


def _filled(values: Columns, fields: Fields, length: int) -> Columns:
    """Every column in full length: single values repeated, what is not there as None."""
    columns: Columns = {}
    for name, kind in fields.items():
        value = values.get(name)
        if isinstance(value, np.ndarray | list):
            columns[name] = value
        else:
            columns[name] = [str(value) if kind == "string" and value is not None else value] * length
    return columns


# ---- files ----


def _write(name: str, fields: Fields, parts: Iterable[Columns], to: Path) -> list[Path]:
    """Both files at once, part by part, each whole or not at all."""
    schema = pa.schema([pa.field(column, getattr(pa, kind)()) for column, kind in fields.items()])
    paths = [to / f"{name}.parquet", to / f"{name}.csv"]
    with ExitStack() as stack:
        unfinished = [stack.enter_context(whole_file(path)) for path in paths]
        writers = [
            stack.enter_context(parquet.ParquetWriter(unfinished[0], schema, compression="zstd")),
            stack.enter_context(csv.CSVWriter(unfinished[1], schema)),
        ]
        for table in _gathered(pa.table(part, schema=schema) for part in parts):
            for writer in writers:
                writer.write_table(table)
    return paths


def _gathered(tables: Iterable[Any]) -> Iterator[Any]:
    """Small tables joined to ones that are worth writing."""
    waiting: list[Any] = []
    for table in tables:
        waiting.append(table)
        if sum(len(one) for one in waiting) >= _LINES_AT_ONCE:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _write_meanings(to: Path) -> Path:
    lines = ["column,meaning", *(f'{name},"{meaning}"' for name, meaning in MEANINGS.items())]
    lines.append(f'{SETTING}*,"a setting of the recipe: see the docstrings of gradorder_lab"\n')
    return write_whole(to / "columns.csv", "\n".join(lines))

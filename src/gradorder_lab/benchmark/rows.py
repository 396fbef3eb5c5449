"""Every run of the benchmark is a row of one tidy Parquet file: what is shipped, and what all tables are made from.

    task, settings             the task's name, and what it consists of, as JSON
    method, step_size, budget  what was run; budget as a share of plain training's cost, above 1 for what costs less
    seed, validates            validates: measured on the held-out part, to choose a step size
    accuracy, loss             after the last step, in percent and nats
    example_gradients, forward_passes, backward_passes, steps
    processor_seconds, wall_seconds
    place                      among the runs that were started in the same directory, from 0
    machine, host              processor, and a hash of the host; host is empty in rows of before they named it
    device                     "cpu", or the accelerator that trained the network
    versions, commit           what it was run with; versions as JSON
    go                         the invocation that it was made in; empty in rows of before they named it
    revision                   of what a recipe means: `CompareRecipe.revision`

New runs join those that are there, also while they are still being made:

    python -m gradorder_lab.benchmark.rows results/benchmark.parquet DIRECTORY [DIRECTORY ...]

A new row replaces the old one of the same run; rows of a task whose settings have changed since are dropped.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isnan
from pathlib import Path
from typing import Self

import pyarrow as pa
from pyarrow import parquet

from gradorder_lab.benchmark import suites
from gradorder_lab.benchmark.measure import ACCURACY, LOSS, Measure
from gradorder_lab.benchmark.recipe import EXPERIMENT, CompareRecipe, only_of_task, task_settings
from gradorder_lab.benchmark.task import Task
from gradorder_lab.errors import LabError
from gradorder_lab.methods import FORWARD
from gradorder_lab.runs.origin import check_shippable
from gradorder_lab.runs.recipe import Setting
from gradorder_lab.runs.store import Store, StoredRun, has_runs
from gradorder_lab.runs.whole_file import whole_file

BENCHMARK_RESULTS = "benchmark.parquet"
_VERSIONS = ("python", "gradorder", "torch", "numpy", "scikit-learn", "numba", "scipy")
_TYPES = {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One row; its fields are the columns of the file."""

    task: str
    settings: str
    method: str
    step_size: float
    budget: float
    seed: int
    validates: bool
    accuracy: float
    loss: float
    example_gradients: int
    forward_passes: int
    backward_passes: int
    steps: int
    processor_seconds: float
    wall_seconds: float
    place: int
    machine: str
    versions: str
    commit: str
    revision: int
    host: str = ""
    go: str = ""
    device: str = "cpu"

    @classmethod
    def of(cls, task: str, run: StoredRun, place: int, facts: dict[str, Setting]) -> Self:
        """From the store."""
        chosen, last = run.settings, {name: float(column[-1]) for name, column in run.rows.items()}
        return cls(
            task=task,
            settings=_as_text(only_of_task(run.settings)),
            method=str(chosen["method"]),
            step_size=float(chosen["step_size"] or 0),
            budget=float(chosen["budget"] or 0),
            seed=run.seed,
            validates=bool(chosen["validates"]),
            accuracy=last["test_accuracy"],
            loss=last["test_loss"],
            example_gradients=int(last["trained"]),
            forward_passes=int(last["forward"]),
            backward_passes=int(last["backward"]),
            steps=int(last["updates"]),
            processor_seconds=last["processor_seconds"],
            wall_seconds=last["seconds"],
            place=place,
            machine=str(facts.get("machine", "")),
            versions=json.dumps({name: facts[name] for name in _VERSIONS if facts.get(name)}),
            commit=str(facts.get("commit") or ""),
            revision=run.revision,
            host=str(facts.get("host") or ""),
            go=str(facts.get("go") or ""),
            device=str(facts.get("device") or "cpu"),
        )

    @property
    def measure(self) -> Measure:
        """What it is judged by: there is no accuracy where the losses are the user's own."""
        return LOSS if isnan(self.accuracy) else ACCURACY

    @property
    def goodness(self) -> float:
        """The larger, the better."""
        return self.measure.goodness(getattr(self, self.measure.name))

    @property
    def work(self) -> float:
        """Its passes, as forward and backward passes of examples: what budgets are counted in."""
        return FORWARD * self.forward_passes + (1 - FORWARD) * self.backward_passes

    @property
    def identity(self) -> tuple[str, str, float, float, int, bool]:
        """What there is one row of."""
        return self.task, self.method, self.step_size, self.budget, self.seed, self.validates


def runs_in(store: Store, tasks: Iterable[Task]) -> list[BenchmarkRun]:
    """The finished runs of these tasks in the order in which they were started, without those of older revisions."""
    names = {_as_text(task_settings(task)): task.name for task in tasks}
    environments = store.environments()
    found = [run for run in store.every_run(EXPERIMENT) if run.revision == CompareRecipe.revision]
    found.sort(key=lambda run: float(run.rows["started"][-1]))
    named = [(place, run, names.get(_as_text(only_of_task(run.settings)))) for place, run in enumerate(found)]
    return [
        BenchmarkRun.of(name, run, place, environments[run.environment])
        for place, run, name in named
        if name is not None
    ]


def rows_of_task(task: Task, rows: Iterable[BenchmarkRun]) -> list[BenchmarkRun]:
    """Those of this task as it is now."""
    now = (task.name, _as_text(task_settings(task)), CompareRecipe.revision)
    return [run for run in rows if (run.task, run.settings, run.revision) == now]


def with_new_rows(before: Sequence[BenchmarkRun], new: Sequence[BenchmarkRun]) -> list[BenchmarkRun]:
    """All rows, task by task: new ones instead of those that they repeat, and of those whose task has changed since."""
    now = {run.task: (run.settings, run.revision) for run in new}
    kept = [run for run in before if now.get(run.task, (run.settings, run.revision)) == (run.settings, run.revision)]
    rows = {run.identity: run for run in (*kept, *new)}
    return sorted(rows.values(), key=lambda run: run.identity)


def searched(runs: Iterable[BenchmarkRun]) -> dict[float, list[float]]:
    """Step size -> how good it was on the held-out part, run by run."""
    found: dict[float, list[float]] = {}
    for run in runs:
        if run.validates:
            found.setdefault(run.step_size, []).append(run.goodness)
    return found


def read_rows(path: Path) -> list[BenchmarkRun]:
    """What `write_rows` wrote.

    Raises:
        LabError: the file is damaged or another one.
    """
    try:
        return [BenchmarkRun(**row) for row in parquet.ParquetFile(path).read().to_pylist()]
    except (OSError, pa.ArrowException, TypeError) as error:
        raise LabError(f"{path} cannot be read as rows of the benchmark: {error}") from error


def write_rows(runs: Sequence[BenchmarkRun], path: Path) -> None:
    """Write the file, whole or not at all."""
    schema = pa.schema([(one.name, _TYPES[one.type]) for one in fields(BenchmarkRun)])  # type: ignore[index]
    columns = {one.name: [getattr(run, one.name) for run in runs] for one in fields(BenchmarkRun)}
    with whole_file(path) as unfinished:
        parquet.write_table(pa.table(columns, schema=schema), unfinished, compression="zstd", compression_level=19)


def keep_rows(runs: Sequence[BenchmarkRun], out: Path) -> Path:
    """Put the runs into the tidy table beside the store in `out`, and return its path."""
    path = out / BENCHMARK_RESULTS
    write_rows(with_new_rows(read_rows(path) if path.exists() else [], runs), path)
    return path


def join(path: Path, directories: Iterable[Path], tasks: Iterable[Task] = suites.EVERY) -> int:
    """Put what was run in these directories into the file; how many rows it has then.

    Raises:
        LabError: a directory has no runs, or runs that must not be shipped: see `check_shippable`.
    """
    known = list(tasks)
    rows = read_rows(path) if path.exists() else []
    for directory in directories:
        if not has_runs(directory):
            raise LabError(f"{directory} has no runs")
        with Store(directory) as store:
            for facts in store.environments():
                check_shippable(facts)
            rows = with_new_rows(rows, runs_in(store, known))
    write_rows(rows, path)
    return len(rows)


def _as_text(settings: Mapping[str, Setting]) -> str:
    return json.dumps(settings, sort_keys=True)


if __name__ == "__main__":
    join(Path(sys.argv[1]), [Path(place) for place in sys.argv[2:]])

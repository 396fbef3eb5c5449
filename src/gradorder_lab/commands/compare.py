"""`gradorder compare`: a probe of a task, then the methods on it, with paired seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from torch.utils.data import Dataset

import gradorder as go
from gradorder_lab.benchmark import own
from gradorder_lab.benchmark import task as tasks
from gradorder_lab.benchmark.contest import Contest
from gradorder_lab.benchmark.methods import BASELINE, CORE, METHODS, Circumstances, named
from gradorder_lab.benchmark.recipe import benchmark_run
from gradorder_lab.benchmark.running import compared
from gradorder_lab.benchmark.task import Split, Task
from gradorder_lab.data.examples import Batch, Examples
from gradorder_lab.errors import LabError
from gradorder_lab.models.named import MODELS
from gradorder_lab.show.standings import show_standings
from gradorder_lab.training.network import NetworkRun, train_one_epoch


@dataclass(frozen=True)
class Request:
    """What is compared, and how.

    Args:
        task: what is learned.
        methods: names; none are the core ones.
        budgets: shares of plain training's cost, beside 1.
        seeds: paired.
        jobs: processes.
        data_dir: directory with the original files of the data sets.
        probe_only: probe, and leave it at that.
    """

    task: Task
    methods: tuple[str, ...] = ()
    budgets: tuple[float, ...] = (0.6, 0.8)
    seeds: int = 3
    jobs: int = 1
    data_dir: Path | None = None
    probe_only: bool = False


def compare(request: Request, out: Path) -> None:
    """Probe, compare, print."""
    contest = planned(request)
    console = Console()
    console.print(f"[bold]A probe of {request.task.name}, after one epoch of plain training[/bold]")
    console.print(probe(request.task, request.data_dir).text, highlight=False, markup=False)
    if request.probe_only:
        return
    console.print()
    standings = compared(contest, out, jobs=request.jobs, data=request.data_dir, console=console)
    show_standings(console, standings)
    console.print(f"Rows: {out / 'runs.sqlite'}", highlight=False, soft_wrap=True)


def planned(request: Request) -> Contest:
    """What is to be run, if names and numbers are right: before anything is run."""
    unknown = [name for name in request.methods if name not in METHODS and ":" not in name]
    if unknown:
        raise LabError(
            f"--method must be one of: {', '.join(METHODS)}; or module:name for an ordering of your own; "
            f"got {unknown[0]!r}"
        )
    chosen = [name if name in METHODS else own.marked(name, "--method") for name in request.methods]
    wrong = [budget for budget in request.budgets if not 0 < budget <= 1]
    if wrong:
        raise LabError(f"--budget must be in (0, 1], got {wrong[0]}")
    methods = dict.fromkeys((BASELINE, *(chosen or CORE)))
    budgets = sorted({*request.budgets, 1.0})
    task = _marked(request.task)
    _check_budgets(task, methods, budgets)
    return Contest(task, tuple(methods), tuple(budgets), seeds=request.seeds)


def _marked(task: Task) -> Task:
    """The task with the hashes of the files that the user brings along: a changed file is another task."""
    data, model = Path(task.data), task.model
    is_own_file = task.data not in tasks.DATA_NAMES and data.is_file()
    is_own_model = model not in MODELS and ":" in model
    return replace(
        task,
        data=own.with_hash(task.data, data) if is_own_file else task.data,
        model=own.marked(model, "--model") if is_own_model else model,
    )


def _check_budgets(task: Task, methods: Sequence[str] | dict[str, None], budgets: Sequence[float]) -> None:
    """Some methods cannot do with too little: said before the run, not after half of it."""
    labels = torch.arange(task.batch_size)
    for method in methods:
        for budget in budgets:
            try:
                named(method).build(Circumstances(labels, task.batch_size, task.epochs, budget, seed=0))
            except ValueError as error:
                raise LabError(
                    f"{method} cannot have --budget {budget:g} with --epochs {task.epochs}: {error}"
                ) from error


def probe(task: Task, data_dir: Path | None) -> go.Advice:
    """The library's advice, one epoch of plain training after the start: before it, all gradients look alike."""
    split = tasks.load_split(task, data_dir, validates=False)
    return go.advise(_after_one_epoch(task, split).model, _MapStyle(split.train), batch_size=task.batch_size)


def _after_one_epoch(task: Task, split: Split) -> NetworkRun:
    given = Circumstances(split.train.labels, task.batch_size, task.epochs, 1.0, seed=0)
    run = benchmark_run(task, split, METHODS[BASELINE].build(given), min(task.step_sizes), task.epochs, seed=0)
    train_one_epoch(run, 0)
    return run


class _MapStyle(Dataset[Batch]):
    """Examples as a dataset that gives them one by one."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> Batch:
        inputs, targets = self._examples.batch([index])
        return inputs[0], targets[0]

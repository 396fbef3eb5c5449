"""`gradorder compare`: a probe of a task, then the methods on it, with paired seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from torch.utils.data import Dataset

import gradorder as go
from gradorder_lab.compare import own, printed
from gradorder_lab.compare import task as tasks
from gradorder_lab.compare.comparison import Plan
from gradorder_lab.compare.methods import BASELINE, CORE, METHODS, Setting, named
from gradorder_lab.compare.running import compare
from gradorder_lab.compare.task import Split, Task
from gradorder_lab.compare.training import Run
from gradorder_lab.datasets.examples import Batch, Examples
from gradorder_lab.errors import LabError


@dataclass(frozen=True)
class Settings:
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


def run(settings: Settings, out: Path) -> None:
    """Probe, compare, print."""
    plan = planned(settings)
    console = Console()
    console.print(f"[bold]A probe of {settings.task.name}, after one epoch of plain training[/bold]")
    console.print(probe(settings.task, settings.data_dir).text, highlight=False, markup=False)
    if settings.probe_only:
        return
    console.print()
    comparison = compare(plan, out, jobs=settings.jobs, data=settings.data_dir, console=console)
    printed.show(console, comparison)
    console.print(f"Rows: {out / 'runs.sqlite'}", highlight=False, soft_wrap=True)


def planned(settings: Settings) -> Plan:
    """The plan, if names and numbers are right: before anything is run."""
    unknown = [name for name in settings.methods if name not in METHODS and ":" not in name]
    if unknown:
        raise LabError(
            f"--method must be one of: {', '.join(METHODS)}; or module:name for an ordering of your own; "
            f"got {unknown[0]!r}"
        )
    chosen = [name if name in METHODS else own.identified(name) for name in settings.methods]
    wrong = [budget for budget in settings.budgets if not 0 < budget <= 1]
    if wrong:
        raise LabError(f"--budget must be in (0, 1], got {wrong[0]}")
    methods = dict.fromkeys((BASELINE, *(chosen or CORE)))
    budgets = sorted({*settings.budgets, 1.0})
    _check_budgets(settings.task, methods, budgets)
    return Plan(settings.task, tuple(methods), tuple(budgets), seeds=settings.seeds)


def _check_budgets(task: Task, methods: Sequence[str] | dict[str, None], budgets: Sequence[float]) -> None:
    """Some methods cannot do with too little: said before the run, not after half of it."""
    labels = torch.arange(task.batch_size)
    for method in methods:
        for budget in budgets:
            try:
                named(method).build(Setting(labels, task.batch_size, task.epochs, budget, seed=0))
            except ValueError as error:
                raise LabError(
                    f"{method} cannot have --budget {budget:g} with --epochs {task.epochs}: {error}"
                ) from error


def probe(task: Task, data_dir: Path | None) -> go.Advice:
    """The library's advice, one epoch of plain training after the start: before it, all gradients look alike."""
    split = tasks.load(task, data_dir, validates=False)
    return go.advise(_after_one_epoch(task, split).model, _MapStyle(split.train), batch_size=task.batch_size)


def _after_one_epoch(task: Task, split: Split) -> Run:
    strategy = METHODS[BASELINE].build(Setting(split.train.labels, task.batch_size, task.epochs, 1.0, seed=0))
    step_size = min(task.step_sizes)
    run = Run(
        tasks.make_model(task.model, split, seed=0),
        split.train,
        strategy,
        task.epochs,
        step_size,
        task.momentum,
        task.weight_decay,
    )
    run.model.train()
    run.train_one_epoch(0)
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

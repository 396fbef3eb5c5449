"""`gradorder compare`: a probe of a task, then the methods on it, with paired seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from torch.utils.data import Dataset

import gradorder as go
from gradorder_lab.benchmark import own
from gradorder_lab.benchmark import task as tasks
from gradorder_lab.benchmark.contest import Contest, refusal, suitable
from gradorder_lab.benchmark.methods import BASELINE, CORE, METHODS, Circumstances
from gradorder_lab.benchmark.recipe import benchmark_run
from gradorder_lab.benchmark.running import compared
from gradorder_lab.benchmark.standings import Standings
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
    data = _data_place(request)
    console = Console()
    console.print(f"[bold]A probe of {request.task.name}, after one epoch of plain training[/bold]")
    console.print(probe(contest.task, data).text, highlight=False, markup=False)
    if request.probe_only:
        return
    console.print()
    console.print(_announcement(contest), highlight=False, soft_wrap=True)
    runs = compared(contest, out, jobs=request.jobs, data=data, console=console)
    show_standings(console, Standings.of(contest.task.name, contest.task.margin, runs))
    console.print(f"Rows: {out / 'runs.sqlite'}", highlight=False, soft_wrap=True)


def _announcement(contest: Contest) -> str:
    """What it takes, as if nothing of it were there yet."""
    searches, runs = contest.work()
    cost = f"{searches.cost + runs.cost:.0f} times plain training"
    return f"{searches.number} trainings to search step sizes and {runs.number} that count: {cost}"


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
    task = _marked(request.task)
    methods = dict.fromkeys((BASELINE, *(chosen or suitable(CORE, task))))
    if unsuitable := set(methods) - set(suitable(methods, task)):
        raise LabError(f"--method {min(unsuitable)!r} needs classes, and {task.name} has none")
    budgets = sorted({*request.budgets, 1.0})
    _check_budgets(task, methods, budgets)
    return Contest(task, tuple(methods), tuple(budgets), seeds=request.seeds, search_seeds=1)


def _marked(task: Task) -> Task:
    """The task with the hashes of the files that the user brings along: a changed file is another task."""
    is_own_model = task.model not in MODELS and ":" in task.model
    return replace(
        task,
        data=own.content(Path(task.data)) if _is_own_file(task) else task.data,
        model=own.marked(task.model, "--model") if is_own_model else task.model,
        losses=None if task.losses is None else own.marked(task.losses, "--losses"),
    )


def _is_own_file(task: Task) -> bool:
    return task.data not in tasks.DATA_NAMES and Path(task.data).is_file()


def _data_place(request: Request) -> Path | None:
    """Where runs find their data: the user's own file, or the directory with the files of the data sets."""
    return Path(request.task.data).resolve() if _is_own_file(request.task) else request.data_dir


def _check_budgets(task: Task, methods: Sequence[str] | dict[str, None], budgets: Sequence[float]) -> None:
    """Some methods cannot do with too little: said before the run, not after half of it."""
    for method in methods:
        for budget in budgets:
            if error := refusal(task, method, budget):
                raise LabError(
                    f"{method} cannot have --budget {budget:g} with --epochs {task.epochs}: {error}"
                ) from error


def probe(task: Task, data_dir: Path | None) -> go.Advice:
    """The library's advice, one epoch of plain training after the start: before it, all gradients look alike."""
    split = tasks.load_split(task, data_dir, validates=False)
    model = _after_one_epoch(task, split).model
    return go.advise(model, _MapStyle(split.train), losses=tasks.own_losses(task), batch_size=task.batch_size)


def _after_one_epoch(task: Task, split: Split) -> NetworkRun:
    given = Circumstances(split.train.labels, task.batch_size, task.epochs, 1.0, seed=0)
    run = benchmark_run(
        task, split, METHODS[BASELINE].build(given), step_size=min(task.step_sizes), length=float(task.epochs), seed=0
    )
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

"""`gradorder compare`: a probe of a task, then the methods on it, with paired seeds, and a page of its own."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from rich.console import Console
from torch.utils.data import Dataset

import gradorder as go
from gradorder_lab import data as data_sets
from gradorder_lab.benchmark.contest import Contest, refusal, suitable
from gradorder_lab.benchmark.fit import check_fit, check_last_batch, check_selection
from gradorder_lab.benchmark.rows import keep_rows
from gradorder_lab.benchmark.running import PlainTraining, announcement, compared, num_there
from gradorder_lab.benchmark.standings import Standings
from gradorder_lab.benchmark.task import Task
from gradorder_lab.data.examples import Examples, LabelledBatch
from gradorder_lab.data.files import data_directory
from gradorder_lab.errors import DatasetNotFoundError, LabError
from gradorder_lab.methods import BASELINE, CORE, METHODS, named
from gradorder_lab.models.named import MODELS
from gradorder_lab.runs import sweep
from gradorder_lab.runs.device import check_device
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.show.comparison import cost_of_asking, write_comparison
from gradorder_lab.show.standings import show_standings
from gradorder_lab.training import own
from gradorder_lab.training.network import NetworkRun, evaluate, train_one_epoch
from gradorder_lab.training.split import DATA_NAMES, SHIPPED


@dataclass(frozen=True)
class ComparisonRequest:
    """What is compared, and how.

    Args:
        task: what is learned.
        methods: names; none are the core ones.
        budgets: shares of plain training's cost, beside 1.
        seeds: paired.
        jobs: processes.
        data: directory with the original files of the data sets.
        device: as torch names it.
        probe_only: probe, and leave it at that.
        startup: seconds that this process needed before it could train.
    """

    task: Task
    methods: tuple[str, ...] = ()
    budgets: tuple[float, ...] = (0.6, 0.8)
    seeds: int = 5
    jobs: int = 1
    data: Path | None = None
    device: str = "cpu"
    probe_only: bool = False
    startup: float = 0.0


def compare(request: ComparisonRequest, out: Path) -> None:
    """Check, probe, compare, print, write the page."""
    console = Console()
    check_device(request.device)
    request = _at_hand(request, console)
    contest, data = planned(request), _data_place(request)
    _check(contest, data)
    console.print(f"[bold]A probe of {contest.task.name}, after one epoch of plain training[/bold]")
    workspace = Workspace(data=data, device=request.device)
    with sweep.threads(workspace.threads):  # as every run
        run = contest.task.training(METHODS[BASELINE], min(contest.task.step_sizes)).start(0, workspace)
        train_one_epoch(run, 0)  # before it all gradients look alike
        advice = _probed(contest.task, run)
        plain = _timed(contest.task, run, request.startup)
    console.print(str(advice), highlight=False, markup=False)
    if request.probe_only:
        return
    console.print()
    told, _ = announcement(contest, plain, jobs=request.jobs)
    there = num_there(contest, out)
    console.print(told + (f"; {there} are there already" if there else ""), highlight=False, soft_wrap=True)
    runs = compared(contest, out, jobs=request.jobs, data=data, device=request.device, console=console)
    standings = Standings.of(contest.task.name, contest.task.margin, runs)
    show_standings(console, standings)
    console.print(cost_of_asking(runs), highlight=False)
    page = write_comparison(contest, standings, runs, out)
    console.print(f"Page: {page}", f"Rows: {keep_rows(runs, out)}", sep="\n", highlight=False, soft_wrap=True)


def _check(contest: Contest, data: Path | None) -> None:
    """Refuse in one line what would end in the middle of a run."""
    task = contest.task
    for method in contest.methods:
        training = task.training(named(method), min(task.step_sizes))
        split = training.split(data)
        if method == BASELINE:
            check_fit(training, split)
            check_last_batch(training, split)
        elif method not in METHODS:
            check_selection(training, split, method)
    if len(task.step_sizes) > 1:  # is there anything to choose a step size by?
        search = task.training(METHODS[BASELINE], min(task.step_sizes), validates=True)
        check_last_batch(search, search.split(data))


def _at_hand(request: ComparisonRequest, console: Console) -> ComparisonRequest:
    """The request, with the part that is shipped where a data set is neither here nor to be had by the network."""
    name, shipped = request.task.data, f"{request.task.data}-mini"
    if shipped not in SHIPPED or data_directory(request.data) is not None:
        return request
    try:
        data_sets.load(name, size="cpu")
    except DatasetNotFoundError:
        source = data_sets.SOURCES[name]
        console.print(
            f"{source.title} could not be downloaded: its shipped part is used, {source.num_mini_train:,} examples to "
            f"train on and {source.num_mini_test:,} to test with. --data DIR, with its files in DIR, uses all.",
            highlight=False,
        )
        called = request.task.name.replace(name, shipped, 1)
        return replace(request, task=replace(request.task, name=called, data=shipped))
    return request


def planned(request: ComparisonRequest) -> Contest:
    """What is to be run, if names and numbers are right: before anything is run."""
    unknown = [name for name in request.methods if name not in METHODS and ":" not in name]
    if unknown:
        raise LabError(
            f"--method must be one of: {', '.join(METHODS)}; or module:name for an ordering or a selection of your "
            f"own; got {unknown[0]!r}"
        )
    chosen = [name if name in METHODS else own.marked(name, "--method") for name in request.methods]
    for name in chosen:
        if name not in METHODS:
            own.check_own_rule(name)
    for size in request.task.step_sizes:
        if not 0 < size < inf:
            raise LabError(f"--step-size must be positive and finite, got {size}")
    wrong = [budget for budget in request.budgets if not 0 < budget <= 1]
    if wrong:
        raise LabError(f"--budget must be in (0, 1], got {wrong[0]}")
    task = _marked_task(request.task)
    methods = dict.fromkeys((BASELINE, *(chosen or suitable(CORE, task))))
    if unsuitable := set(methods) - set(suitable(methods, task)):
        raise LabError(f"--method {min(unsuitable)!r} needs classes, and {task.name} has none")
    budgets = sorted({*request.budgets, 1.0})
    _check_budgets(task, methods, budgets)
    return Contest(task, tuple(methods), tuple(budgets), seeds=request.seeds, search_seeds=1)


def _marked_task(task: Task) -> Task:
    """The task with the hashes of the files that the user brings along: a changed file is another task."""
    is_own_model = task.model not in MODELS and ":" in task.model
    return replace(
        task,
        data=own.content(Path(task.data)) if _is_own_file(task) else task.data,
        model=own.marked(task.model, "--model") if is_own_model else task.model,
        losses=None if task.losses is None else own.marked(task.losses, "--losses"),
    )


def _is_own_file(task: Task) -> bool:
    return task.data not in DATA_NAMES and Path(task.data).is_file()


def _data_place(request: ComparisonRequest) -> Path | None:
    """Where runs find their data: the user's own file, or the directory with the files of the data sets."""
    return Path(request.task.data).resolve() if _is_own_file(request.task) else request.data


def _check_budgets(task: Task, methods: Iterable[str], budgets: Sequence[float]) -> None:
    """Some methods cannot do with too little: said before the run, not after half of it."""
    for method in methods:
        for budget in budgets:
            if error := refusal(task, method, budget):
                raise LabError(
                    f"{method} cannot have --budget {budget:g} with --epochs {task.epochs}: {error}"
                ) from error


def _probed(task: Task, run: NetworkRun) -> go.Advice | str:
    """The library's advice; where it cannot be given, why. The comparison does not need it."""
    try:
        labels = run.train.labels if task.has_classes else None
        return go.advise(run.model, _MapStyle(run.train), losses=run.losses, labels=labels, batch_size=task.batch_size)
    except ValueError as error:
        return f"The probe cannot judge this network: {error}"


def _timed(task: Task, run: NetworkRun, startup: float) -> PlainTraining:
    """How long plain training takes, by its first epoch."""
    started = time.perf_counter()
    evaluate(run.model, run.measured["test"], run.losses)
    return PlainTraining(task.epochs * run.cost.seconds, time.perf_counter() - started, startup)


class _MapStyle(Dataset[LabelledBatch]):
    """Examples as a dataset that gives them one by one."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> LabelledBatch:
        inputs, targets = self._examples.batch([index])
        return inputs[0], targets[0]

"""`gradorder benchmark`: the field's methods against random reshuffling, on a suite of tasks.

For every task, the learning rate is searched on a held-out tenth of the training set. Then every method is trained once
per seed, and random reshuffling also with shorter runs. Methods of one task and seed take turns in random order.
`benchmark/referee.py` has the questions and how they are answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from gradorder_lab.benchmark.contest import Contest
from gradorder_lab.benchmark.referee import referee, trials_of
from gradorder_lab.benchmark.rows import join, keep_rows, read_rows
from gradorder_lab.benchmark.running import PlainTraining, announcement, compared
from gradorder_lab.benchmark.suites import EVERY, SUITES, methods_for
from gradorder_lab.benchmark.task import Task
from gradorder_lab.errors import LabError
from gradorder_lab.methods import METHODS
from gradorder_lab.runs import origin
from gradorder_lab.runs.device import check_device
from gradorder_lab.show.referee import show_trials


@dataclass(frozen=True)
class BenchmarkRequest:
    """What is run, and how.

    Args:
        tasks: names; none are all of the suite.
        suite: a key of `SUITES`.
        methods: names; none are those of the task's suite, "all" is every one.
        seeds: paired; the task's own number for None.
        step_size: for all methods, instead of a search.
        search_only: find the step sizes, and leave it at that.
        jobs: processes.
        data: directory with the original files of the data sets.
        device: as torch names it.
        results: a file of rows to ship: rows that it has are not run again, new ones join it.
    """

    tasks: tuple[str, ...] = ()
    suite: str = "confirmation"
    methods: tuple[str, ...] = ()
    seeds: int | None = None
    step_size: float | None = None
    search_only: bool = False
    jobs: int = 1
    data: Path | None = None
    device: str = "cpu"
    results: Path | None = None


def benchmark(request: BenchmarkRequest, out: Path) -> None:
    """Say what is to be run and for how long, run it, keep it, print it. Run again, it goes on."""
    console = Console()
    check_device(request.device)
    contests = [planned(task, request) for task in chosen_tasks(request)]
    if request.results is not None:
        origin.check_shippable(origin.facts())  # before hours of work, not after them
    announce(contests, request, console)
    for contest in contests:
        known = read_rows(request.results) if request.results is not None and request.results.exists() else []
        runs = compared(
            contest,
            out,
            jobs=request.jobs,
            data=request.data,
            device=request.device,
            console=console,
            known=known,
            search_only=request.search_only,
        )
        if request.results is None:
            keep_rows(runs, out)
        else:
            join(request.results, [out])
        if not request.search_only:
            show_trials(console, contest.task, trials_of(contest.task, runs))


def chosen_tasks(request: BenchmarkRequest) -> list[Task]:
    """Those that were named, or the suite."""
    if request.suite not in SUITES:
        raise LabError(f"--suite must be one of {', '.join(SUITES)}, got {request.suite!r}")
    known = {task.name: task for task in EVERY}
    if unknown := [name for name in request.tasks if name not in known]:
        raise LabError(f"TASK must be one of: {'; '.join(known)}; got {unknown[0]!r}")
    return [known[name] for name in request.tasks] or list(SUITES[request.suite].tasks)


def planned(task: Task, request: BenchmarkRequest) -> Contest:
    """One task; random reshuffling is always there, as it sets the target."""
    methods = tuple(METHODS) if request.methods == ("all",) else request.methods or methods_for(task)
    if unknown := [name for name in methods if name not in METHODS]:
        raise LabError(f"--method must be one of: {', '.join(METHODS)}; or all; got {unknown[0]!r}")
    if request.step_size is not None:
        task = replace(task, step_sizes=(request.step_size,))
    return referee(task, methods, request.seeds)


def announce(contests: Sequence[Contest], request: BenchmarkRequest, console: Console) -> None:
    """Every task with its runs and a guess of the hours, as if nothing of it were there yet."""
    hours = 0.0
    for contest in contests:
        plain = PlainTraining.measured(contest, request.data, request.device)
        told, guess = announcement(contest, plain, jobs=request.jobs, search_only=request.search_only)
        hours += guess
        console.print(told, highlight=False, soft_wrap=True)
    console.print(f"Together about {hours:.1f} h; methods with passes of their own take longer than counted here.")

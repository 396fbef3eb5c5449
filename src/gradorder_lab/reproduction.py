"""The main job: run what is missing, judge the claims, print them, write the page."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gradorder_lab import environment, experiments, printed, report, sweep
from gradorder_lab.data_hashes import data_hashes
from gradorder_lab.errors import LabError
from gradorder_lab.experiment import Experiment, Size
from gradorder_lab.neural import processes
from gradorder_lab.progress import Plan
from gradorder_lab.store import Store, only_one
from gradorder_lab.summary import Summary
from gradorder_lab.tensorboard import TensorBoardLog
from gradorder_lab.workspace import Workspace


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what is there."""

    def __init__(self, num_finished: int, num_asked: int) -> None:
        super().__init__()
        self.num_finished, self.num_asked = num_finished, num_asked


@dataclass(frozen=True)
class Settings:
    """How the experiments are run.

    Args:
        size: how much.
        seeds: paired seeds, instead of the size's own number.
        jobs: processes.
        cluster: a Dask scheduler, instead of them.
        data: directory with the original files of the data sets.
        device: as torch names it.
        threads: of each process.
        tensorboard: directory for TensorBoard to read, or None.
    """

    size: Size = "mini"
    seeds: int | None = None
    jobs: int = 1
    cluster: str | None = None
    data: Path | None = None
    device: str = "cpu"
    threads: int = 1
    tensorboard: Path | None = None


def reproduce(names: Sequence[str], out: Path, settings: Settings) -> None:
    """Run the experiments and leave their rows and the page in `out`; under torchrun, on all of its processes."""
    asked = experiments.chosen(names)
    if processes.num_launched() > 1 and settings.cluster is not None:
        raise LabError("--cluster must not be given under torchrun: choose one of the two")
    with processes.joined(settings.device):
        if processes.is_first():
            _reproduce(asked, out, settings)
        else:
            sweep.follow(_workspace(out, settings))


def _reproduce(asked: Sequence[Experiment], out: Path, settings: Settings) -> None:
    console = Console()
    log = None if settings.tensorboard is None else TensorBoardLog(settings.tensorboard)
    facts = environment.facts() | {"size": settings.size, "device": settings.device, "threads": settings.threads}
    facts |= {"processes": processes.num_launched()} if processes.num_launched() > 1 else {}
    facts |= data_hashes(asked, settings.size, settings.data)
    with only_one(out), Store(out, facts) as store:
        _log_finished(log, asked, settings, store)
        _run(asked, settings, store, out, console=console, log=log)
        summary = Summary.of(store, experiments.all_recipes())
    printed.show(console, summary, asked)
    page = report.write(summary, out)
    console.print(f"Page: {page}", f"Rows: {out / 'runs.sqlite'}", sep="\n", soft_wrap=True, highlight=False)


def _workspace(out: Path, settings: Settings) -> Workspace:
    return Workspace(out / "checkpoints", settings.data, settings.device, settings.threads)


def _log_finished(log: TensorBoardLog | None, asked: Sequence[Experiment], settings: Settings, store: Store) -> None:
    """What an earlier call has left in the store."""
    if log is not None:
        for recipe in (recipe for experiment in asked for recipe in experiment.recipes(settings.size)):
            for seed, rows in store.rows(recipe).items():
                log.add(recipe, seed, rows)


def _run(
    asked: Sequence[Experiment],
    settings: Settings,
    store: Store,
    out: Path,
    *,
    console: Console,
    log: TensorBoardLog | None,
) -> None:
    seeds = {experiment.name: settings.seeds or experiment.seeds[settings.size] for experiment in asked}
    workspace = _workspace(out, settings)
    pieces = sweep.missing(asked, settings.size, seeds, store, workspace)
    num_asked = sum(len(experiment.recipes(settings.size)) * seeds[experiment.name] for experiment in asked)
    num_finished = num_asked - sum(len(piece.recipes) for piece in pieces)
    Plan.of(asked, settings.size, seeds, num_finished).save(out)
    columns = (TextColumn("runs"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("runs", total=num_asked, completed=num_finished)

        def on_finished(run: sweep.Finished) -> None:
            progress.advance(bar)
            if log is not None:
                log.add(run.recipe, run.seed, run.rows)

        try:
            sweep.run_all(
                pieces,
                store,
                jobs=settings.jobs,
                cluster=settings.cluster,
                on_finished=on_finished,
            )
        except KeyboardInterrupt as error:
            raise Interrupted(int(progress.tasks[0].completed), num_asked) from error
    shutil.rmtree(workspace.checkpoints or "", ignore_errors=True)  # everything that they were for is in the store

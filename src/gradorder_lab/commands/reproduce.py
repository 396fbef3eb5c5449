"""The main job: run what is missing, judge the claims, print them, write the page."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from gradorder_lab import paper
from gradorder_lab.paper.experiment import Experiment
from gradorder_lab.runs import origin, shipped, sweep
from gradorder_lab.runs.device import check_device, device_name
from gradorder_lab.runs.recipe import Size, Workspace
from gradorder_lab.runs.store import Store, only_one
from gradorder_lab.runs.summary import Summary
from gradorder_lab.show import terminal
from gradorder_lab.show.page import page_of
from gradorder_lab.show.writing import write

TABLE = "runs.parquet"
"""The finished runs as one tidy table, beside the store."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what is there."""

    def __init__(self, num_finished: int, num_asked: int) -> None:
        super().__init__()
        self.num_finished, self.num_asked = num_finished, num_asked


@dataclass(frozen=True)
class Reproduction:
    """How the experiments are run.

    Args:
        size: how much.
        seeds: paired seeds, instead of the size's own number.
        jobs: processes.
        cluster: a Dask scheduler, instead of them.
        data: directory with the original files of the data sets.
        device: as torch names it.
        threads: of each process.
    """

    size: Size = "mini"
    seeds: int | None = None
    jobs: int = 1
    cluster: str | None = None
    data: Path | None = None
    device: str = "cpu"
    threads: int = 1


def reproduce(names: Sequence[str], out: Path, settings: Reproduction) -> None:
    """Run the experiments and leave their rows and the page in `out`."""
    asked, console = paper.chosen(names), Console()
    check_device(settings.device)
    if skipped := [one.name for one in asked if not one.recipes(settings.size)]:
        names = ", ".join(skipped)
        console.print(f"Not run at size {settings.size}: {names}. Use --size cpu --data DIR.", soft_wrap=True)
    facts = origin.facts() | {
        "size": settings.size,
        "device": device_name(settings.device),
        "threads": settings.threads,
    }
    recipes = [recipe for experiment in asked for recipe in experiment.recipes(settings.size)]
    facts |= origin.content_facts(recipes, settings.data)
    with only_one(out), Store(out, facts) as store:
        _run(asked, settings, store, out, console=console)
        summary = Summary.of(store)
    shipped.write_table(summary, out / TABLE)
    page = page_of(summary, shipped.beside(out))
    terminal.show(console, page, settings.size)
    told = (f"Page: {write(page, out)}", f"Rows: {out / TABLE}")
    console.print("", *told, sep="\n", soft_wrap=True, highlight=False)


def _workspace(out: Path, settings: Reproduction) -> Workspace:
    return Workspace(out / "checkpoints", settings.data, settings.device, settings.threads)


def _run(asked: Sequence[Experiment], settings: Reproduction, store: Store, out: Path, *, console: Console) -> None:
    seeds = {experiment.name: settings.seeds or experiment.seeds[settings.size] for experiment in asked}
    workspace = _workspace(out, settings)
    wanted = [(recipe, seeds[one.name]) for one in asked for recipe in one.recipes(settings.size)]
    pieces = sweep.missing(wanted, store, workspace)
    for recipe in (recipe for piece in pieces for recipe in piece.recipes):
        recipe.contents(settings.data)  # what is not there is said before anything is run
    num_asked = sum(num_seeds for _, num_seeds in wanted)
    num_finished = num_asked - sum(len(piece.recipes) for piece in pieces)
    with sweep.progress_bar(console) as progress:
        bar = progress.add_task("runs", total=num_asked, completed=num_finished)

        def on_finished(_: sweep.Finished) -> None:
            progress.advance(bar)

        try:
            sweep.run_all(pieces, store, jobs=settings.jobs, cluster=settings.cluster, on_finished=on_finished)
        except KeyboardInterrupt as error:
            raise Interrupted(int(progress.tasks[0].completed), num_asked) from error
    shutil.rmtree(workspace.checkpoints or "", ignore_errors=True)  # everything that they were for is in the store

"""The main job: run what is missing, judge the claims, print them, write the page."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gradorder_lab import environment, experiments, printed, report, sweep
from gradorder_lab.experiment import Experiment, Size
from gradorder_lab.store import Store, only_one
from gradorder_lab.summary import Summary


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what is there."""

    def __init__(self, num_finished: int, num_asked: int) -> None:
        super().__init__()
        self.num_finished, self.num_asked = num_finished, num_asked


def reproduce(
    names: Sequence[str], out: Path, *, size: Size, seeds: int | None, jobs: int, cluster: str | None
) -> None:
    """Run the experiments and leave their rows, the page and the figures in `out`."""
    console = Console()
    asked = experiments.chosen(names)
    numbers = {experiment.name: seeds or experiment.seeds[size] for experiment in asked}
    with only_one(out), Store(out, environment.facts() | {"size": size}) as store:
        _run(asked, numbers, store, console, jobs=jobs, cluster=cluster)
        summary = Summary.of(store, experiments.all_recipes())
    printed.show(console, summary, asked)
    page = report.write(summary, out)
    console.print(f"Page: {page}", f"Rows: {out / 'runs.sqlite'}", sep="\n", soft_wrap=True, highlight=False)


def _run(
    asked: Sequence[Experiment],
    numbers: dict[str, int],
    store: Store,
    console: Console,
    *,
    jobs: int,
    cluster: str | None,
) -> None:
    pieces = sweep.missing(asked, numbers, store)
    num_asked = sum(len(experiment.recipes()) * numbers[experiment.name] for experiment in asked)
    num_finished = num_asked - sum(len(piece.recipes) for piece in pieces)
    columns = (TextColumn("runs"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("runs", total=num_asked, completed=num_finished)
        try:
            sweep.run_all(pieces, store, jobs=jobs, cluster=cluster, on_finished=lambda _: progress.advance(bar))
        except KeyboardInterrupt as error:
            raise Interrupted(int(progress.tasks[0].completed), num_asked) from error

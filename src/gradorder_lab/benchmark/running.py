"""Carry out comparisons: what is missing is run, over processes, and kept."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gradorder_lab.benchmark.contest import Contest, Standings, carry_out
from gradorder_lab.runs import origin, sweep
from gradorder_lab.runs.recipe import Recipe, Workspace
from gradorder_lab.runs.store import Store, only_one


def compared(contest: Contest, out: Path, *, jobs: int, data: Path | None, console: Console) -> Standings:
    """The comparison, after running what `out` does not have yet."""
    workspace = Workspace(data=data)
    facts = origin.facts() | {"threads": workspace.threads}
    with only_one(out), Store(out, facts) as store, _progress(console) as progress:
        bar = progress.add_task(contest.task.name, total=None)

        def run_all(wanted: Sequence[tuple[Recipe, int]]) -> None:
            pieces = sweep.missing(wanted, store, workspace)
            num_wanted = sum(seeds for _, seeds in wanted)
            progress.reset(bar, total=num_wanted, completed=num_wanted - len(pieces))
            sweep.run_all(pieces, store, jobs=jobs, cluster=None, on_finished=lambda _: progress.advance(bar))

        return carry_out(contest, store, run_all)


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        yield progress

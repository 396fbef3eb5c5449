"""Carry out comparisons: what is missing is run, over processes, and kept."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gradorder_lab import environment, sweep
from gradorder_lab.compare.comparison import Comparison, Plan, carry_out
from gradorder_lab.recipe import Recipe
from gradorder_lab.store import Store, only_one
from gradorder_lab.sweep import Piece
from gradorder_lab.workspace import Workspace


def compare(plan: Plan, out: Path, *, jobs: int, data: Path | None, console: Console) -> Comparison:
    """The comparison, after running what `out` does not have yet."""
    workspace = Workspace(data=data)
    facts = environment.facts() | {"threads": workspace.threads}
    with only_one(out), Store(out, facts) as store, _progress(console) as progress:
        bar = progress.add_task(plan.task.name, total=None)

        def run_all(wanted: Sequence[tuple[Recipe, int]]) -> None:
            pieces = missing(wanted, store, workspace)
            num_wanted = sum(seeds for _, seeds in wanted)
            progress.reset(bar, total=num_wanted, completed=num_wanted - len(pieces))
            sweep.run_all(pieces, store, jobs=jobs, cluster=None, on_finished=lambda _: progress.advance(bar))

        return carry_out(plan, store, run_all)


def missing(wanted: Sequence[tuple[Recipe, int]], store: Store, workspace: Workspace) -> list[Piece]:
    """The runs that the store does not have, seed by seed: what is stopped early has whole seeds."""
    finished = {recipe: store.seeds(recipe) for recipe, _ in wanted}
    most = max((seeds for _, seeds in wanted), default=0)
    return [
        Piece((recipe,), seed, workspace)
        for seed in range(most)
        for recipe, seeds in wanted
        if seed < seeds and seed not in finished[recipe]
    ]


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        yield progress

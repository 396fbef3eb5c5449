"""Carry out comparisons: what is missing is run, over processes, and kept."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gradorder_lab.benchmark.contest import Contest, Wanted, carry_out
from gradorder_lab.benchmark.methods import BASELINE
from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.rows import Run, joined, rows_of, runs_in
from gradorder_lab.runs import origin, sweep
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.runs.store import Store, only_one
from gradorder_lab.runs.sweep import Piece

_TRIED = 0.02
"""Of plain training: enough to tell how long the whole takes."""


def compared(
    contest: Contest,
    out: Path,
    *,
    jobs: int,
    data: Path | None,
    console: Console,
    known: Sequence[Run] = (),
    search_only: bool = False,
) -> list[Run]:
    """All runs of the comparison, after running what is neither in `out` nor among the rows that are `known`."""
    known = rows_of(contest.task, known)
    have = {run.identity[1:] for run in known}
    workspace = Workspace(data=data)
    facts = origin.facts() | {"threads": workspace.threads}
    with only_one(out), Store(out, facts) as store, _progress(console) as progress:
        bar = progress.add_task(contest.task.name, total=None)

        def run_all(wanted: Wanted) -> None:
            missing = sweep.missing(wanted, store, workspace)
            pieces = in_random_order([piece for piece in missing if _identity(piece) not in have])
            num_wanted = sum(seeds for _, seeds in wanted)
            progress.reset(bar, total=num_wanted, completed=num_wanted - len(pieces))
            sweep.run_all(pieces, store, jobs=jobs, cluster=None, on_finished=lambda _: progress.advance(bar))

        def found() -> list[Run]:
            return joined(known, runs_in(store, [contest.task]))

        carry_out(contest, found, run_all, search_only=search_only)
        return found()


def _identity(piece: Piece) -> tuple[str, float, float, int, bool]:
    """Of its one recipe, as `Run.identity` without the task."""
    recipe = cast("CompareRecipe", piece.recipes[0])
    return recipe.method, recipe.step_size, recipe.budget, piece.seed, recipe.validates


def in_random_order(pieces: list[Piece]) -> list[Piece]:
    """Seed by seed; within a seed by chance, so that no method always has the machine at its best.

    The same order wherever it is run, and what is left of it when it goes on.
    """

    def chance(piece: Piece) -> bytes:
        names = [str(piece.seed), *(recipe.identity for recipe in piece.recipes)]
        return hashlib.sha256(" ".join(names).encode()).digest()

    return sorted(pieces, key=lambda piece: (piece.seed, chance(piece)))


def plain_seconds(contest: Contest, data: Path | None) -> float:
    """How long plain training takes on this machine, by a small part of it."""
    recipe = CompareRecipe.of(contest.task, BASELINE, min(contest.task.step_sizes), _TRIED)
    piece = Piece((recipe,), 0, Workspace(data=data))
    sweep.run_piece(piece)  # reads the data
    (tried,) = sweep.run_piece(piece)
    training = float(tried.rows["seconds"][-1])
    return training / _TRIED + tried.seconds - training


def announced(contest: Contest, seconds: float, *, jobs: int, search_only: bool = False) -> tuple[str, float]:
    """How many runs there are and how long they take, in words and in hours, as if nothing of it were there yet.

    Args:
        contest: what is to be run.
        seconds: of plain training, as `plain_seconds` tells.
        jobs: processes.
        search_only: without the runs that count.
    """
    searches, runs = contest.work(search_only=search_only)
    hours = (searches.cost + runs.cost) * seconds / jobs / 3600
    guess = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min" if hours >= 1 / 60 else f"{3600 * hours:.0f} s"
    told = (
        f"{contest.task.name}: {len(contest.methods)} methods, {searches.number} runs to search and {runs.number} that "
        f"count; plain training takes {seconds:.1f} s, all about {guess} with --jobs {jobs}"
    )
    return told, hours


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        yield progress

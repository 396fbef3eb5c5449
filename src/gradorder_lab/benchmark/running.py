"""Carry out comparisons: what is missing is run, over processes, and kept."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from rich.console import Console

from gradorder_lab.benchmark.contest import Contest, Wanted, carry_out
from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.rows import BenchmarkRun, rows_of_task, runs_in, with_new_rows
from gradorder_lab.methods import BASELINE
from gradorder_lab.runs import origin, sweep
from gradorder_lab.runs.device import device_name
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.runs.store import Store, has_runs, only_one
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
    device: str = "cpu",
    known: Sequence[BenchmarkRun] = (),
    search_only: bool = False,
) -> list[BenchmarkRun]:
    """All runs of the comparison, after running what is neither in `out` nor among the rows that are `known`."""
    known = rows_of_task(contest.task, known)
    have = {run.identity[1:] for run in known}
    workspace = Workspace(data=data, device=device)
    facts = origin.facts() | {"threads": workspace.threads, "device": device_name(device)}
    with only_one(out), Store(out, facts) as store, sweep.progress_bar(console) as progress:
        bar = progress.add_task("", total=None)

        def run_all(wanted: Wanted) -> None:
            missing = sweep.missing(wanted, store, workspace)
            pieces = in_random_order([piece for piece in missing if _identity(piece) not in have])
            num_wanted = sum(seeds for _, seeds in wanted)
            what = "searching step sizes" if any(recipe.validates for recipe, _ in wanted) else "runs that count"
            described = f"{contest.task.name}: {what}"
            progress.reset(bar, total=num_wanted, completed=num_wanted - len(pieces), description=described)
            sweep.run_all(pieces, store, jobs=jobs, cluster=None, on_finished=lambda _: progress.advance(bar))

        def found() -> list[BenchmarkRun]:
            return with_new_rows(known, runs_in(store, [contest.task]))

        carry_out(contest, found, run_all, search_only=search_only)
        return contest.part_of(found())


def num_there(contest: Contest, out: Path) -> int:
    """How many of the announced runs the directory has already: longer ones are announced without a number."""
    if not has_runs(out):
        return 0
    with Store(out) as store:
        return sum(run.budget <= 1 for run in contest.part_of(runs_in(store, [contest.task])))


def _identity(piece: Piece) -> tuple[str, float, float, int, bool]:
    """Of its one recipe, as `BenchmarkRun.identity` without the task."""
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


@dataclass(frozen=True)
class PlainTraining:
    """How long plain training takes on this machine, in seconds.

    Args:
        training: its steps.
        around: what every run needs besides its steps: the network's start and its evaluation.
        startup: until a new process can train; this one needed as long.
    """

    training: float
    around: float = 0.0
    startup: float = 0.0

    @classmethod
    def measured(cls, contest: Contest, data: Path | None, device: str = "cpu") -> Self:
        """By a small part of it."""
        recipe = CompareRecipe.of(contest.task, BASELINE, min(contest.task.step_sizes), _TRIED)
        piece = Piece((recipe,), 0, Workspace(data=data, device=device))
        sweep.run_piece(piece)  # reads the data
        (tried,) = sweep.run_piece(piece)
        training = float(tried.rows["seconds"][-1])
        return cls(training / _TRIED, tried.seconds - training)


def announcement(contest: Contest, plain: PlainTraining, *, jobs: int, search_only: bool = False) -> tuple[str, float]:
    """How many runs there are and how long they take, in words and in hours, as if nothing of it were there yet."""
    searches, runs = contest.work(search_only=search_only)
    cost = searches.cost + runs.cost
    whole = (cost * plain.training + (searches.number + runs.number) * plain.around) / jobs
    whole += plain.startup if jobs > 1 else 0.0
    told = (
        f"{contest.task.name}: {len(contest.methods)} methods, {searches.number} trainings to search step sizes and "
        f"{runs.number} that count: {cost:.0f} times plain training, which takes {duration(plain.training)}; all about "
        f"{duration(whole)} with --jobs {jobs}"
        + ("" if search_only or contest.one_run_each else "; methods that cost less are then run longer, too")
    )
    return told, whole / 3600


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(4.25), duration(125), duration(9000)
    ('4.2 s', '2 min', '2.5 h')
    """
    if seconds >= 3600:  # noqa: PLR2004 - an hour
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.1f} s"  # noqa: PLR2004 - a minute

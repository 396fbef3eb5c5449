"""Run what has not been run yet: over the processes of this machine, or over a Dask cluster.

The work is cut into pieces of one experiment, one family of recipes and one seed, which share what they can. Only
this process writes, one transaction per run. Each run depends on its recipe and seed alone, so the rows are the same
wherever and in whatever order they are made.
"""

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain

import torch
from joblib import Parallel, delayed, parallel_config
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gradorder_lab.errors import LabError
from gradorder_lab.runs.recipe import Recipe, Rows, Workspace
from gradorder_lab.runs.store import Store

_CONNECT_SECONDS = 10
_WATCH_SECONDS = 1.0


@dataclass(frozen=True)
class Piece:
    """What one process does without being asked again."""

    recipes: tuple[Recipe, ...]
    seed: int
    workspace: Workspace

    @property
    def stage(self) -> int:
        """When it may be run."""
        return max(recipe.stage for recipe in self.recipes)


@dataclass(frozen=True, eq=False)
class Finished:
    """One run with its rows."""

    recipe: Recipe
    seed: int
    rows: Rows
    seconds: float


def missing(wanted: Iterable[tuple[Recipe, int]], store: Store, workspace: Workspace) -> list[Piece]:
    """What the store does not have yet of these recipes with so many seeds, seed by seed: what stops early is whole."""
    pieces: dict[tuple[int, str, str], list[Recipe]] = {}
    for recipe, num_seeds in wanted:
        for seed in set(range(num_seeds)) - store.seeds(recipe):
            pieces.setdefault((seed, recipe.experiment, recipe.family), []).append(recipe)
    found = sorted(pieces.items(), key=lambda one: one[0][0])
    return [Piece(tuple(recipes), seed, workspace) for (seed, _, _), recipes in found]


def run_all(
    pieces: Sequence[Piece], store: Store, *, jobs: int, cluster: str | None, on_finished: Callable[[Finished], None]
) -> None:
    """Run every piece, stage by stage, and keep each run as soon as its piece is there."""
    with _backend(jobs, cluster), warnings.catch_warnings():
        # loky replaces workers that have grown, and says so; nothing is lost
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        # an interruption cancels what is under way: it is run again when the command is
        warnings.filterwarnings(
            "ignore", message=r"\d+ tasks (which were still being processed|have been successfully)"
        )
        for stage in sorted({piece.stage for piece in pieces}):
            parallel = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2 * n_jobs")
            with closing(parallel(delayed(run_piece)(piece) for piece in pieces if piece.stage == stage)) as found:
                for finished in chain.from_iterable(found):
                    store.add(finished.recipe, finished.seed, finished.rows, finished.seconds)
                    on_finished(finished)


def _leave_with(parent: int) -> None:
    """End this process soon after its parent: one that was killed cannot tell its workers to go."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_piece(piece: Piece) -> list[Finished]:
    """Every run of a piece."""
    with threads(piece.workspace.threads):
        runs = []
        for recipe in piece.recipes:
            started = time.perf_counter()
            rows = recipe.run(piece.seed, piece.workspace)
            runs.append(Finished(recipe, piece.seed, rows, time.perf_counter() - started))
        return runs


def progress_bar(console: Console) -> Progress:
    """One line: what is run, how much of it, how long still."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """So many threads of torch's, as every run has them."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _backend(jobs: int, cluster: str | None) -> AbstractContextManager[object]:
    if cluster is not None:
        return _dask(cluster)
    if jobs <= 1:
        return nullcontext()
    # A worker watches from its start on, not from its first piece: this process may be killed while it waits for one.
    workers: AbstractContextManager[object] = parallel_config(
        "loky", n_jobs=jobs, initializer=_leave_with, initargs=(os.getpid(),)
    )
    return workers


@contextmanager
def _dask(address: str) -> Iterator[None]:
    """The workers of a Dask scheduler, as many as it has."""
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise LabError('--cluster needs Dask: pip install "gradorder-lab[cluster]"') from error
    try:
        client = Client(address, timeout=_CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        raise LabError(f"--cluster must be the address of a Dask scheduler, got {address!r}: {error}") from error
    with client:
        if not client.scheduler_info()["workers"]:
            raise LabError(f"--cluster must be a scheduler with workers, but {address} has none")
        with parallel_config(backend="dask", n_jobs=-1):
            yield

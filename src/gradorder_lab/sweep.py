"""Run what has not been run yet: over the processes of this machine, or over a Dask cluster.

The work is cut into pieces of one experiment, one problem and one seed, so that a piece builds its problem once. Only
this process writes, one transaction per run. Each run depends on its recipe and seed alone, so the rows are the same
wherever and in whatever order they are made.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from joblib import Parallel, delayed, parallel_config

from gradorder_lab.errors import LabError
from gradorder_lab.experiment import Experiment
from gradorder_lab.recipe import Recipe, Rows
from gradorder_lab.store import Store

_CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Piece:
    """What one process does without being asked again."""

    recipes: tuple[Recipe, ...]
    seed: int


@dataclass(frozen=True, eq=False)
class Finished:
    """One run with its rows."""

    recipe: Recipe
    seed: int
    rows: Rows
    seconds: float


def missing(experiments: Iterable[Experiment], seeds: Mapping[str, int], store: Store) -> list[Piece]:
    """The pieces that the store does not have yet; `seeds` gives the number of seeds of each experiment."""
    pieces: dict[tuple[str, str, int], list[Recipe]] = {}
    for experiment in experiments:
        for recipe in experiment.recipes():
            finished = store.seeds(recipe)
            for seed in range(seeds[experiment.name]):
                if seed not in finished:
                    problem = str(recipe.settings.get("problem", recipe.settings.get("task_name")))
                    pieces.setdefault((experiment.name, problem, seed), []).append(recipe)
    return [Piece(tuple(recipes), seed) for (_, _, seed), recipes in pieces.items()]


def run_all(
    pieces: Sequence[Piece], store: Store, *, jobs: int, cluster: str | None, on_finished: Callable[[Finished], None]
) -> None:
    """Run every piece and keep each run as soon as its piece is there."""
    with _backend(jobs, cluster):
        parallel = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2 * n_jobs")
        for runs in parallel(delayed(run_piece)(piece) for piece in pieces):
            for finished in runs:
                store.add(finished.recipe, finished.seed, finished.rows, finished.seconds)
                on_finished(finished)


def run_piece(piece: Piece) -> list[Finished]:
    """Every run of a piece, on one thread: these models are too small to be shared."""
    with _one_thread():
        return list(_runs(piece))


def _runs(piece: Piece) -> Iterator[Finished]:
    for recipe in piece.recipes:
        started = time.perf_counter()
        rows = recipe.run(piece.seed)
        yield Finished(recipe, piece.seed, rows, time.perf_counter() - started)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _backend(jobs: int, cluster: str | None) -> AbstractContextManager[object]:
    if cluster is None:
        return parallel_config(n_jobs=jobs) if jobs > 1 else nullcontext()
    return _dask(cluster)


@contextmanager
def _dask(address: str) -> Iterator[None]:
    """The workers of a Dask scheduler, as many as it has."""
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise LabError('--cluster needs Dask: pip install "gradorder[cluster]"') from error
    try:
        client = Client(address, timeout=_CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        raise LabError(f"--cluster must be the address of a Dask scheduler, got {address!r}: {error}") from error
    with client:
        if not client.scheduler_info()["workers"]:
            raise LabError(f"--cluster must be a scheduler with workers, but {address} has none")
        with parallel_config(backend="dask", n_jobs=-1):
            yield

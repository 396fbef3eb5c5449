"""Finished runs on disk: one SQLite file that survives a kill at any moment.

One transaction per finished run, in WAL mode: a run is either there with all its rows or not there. The numbers are
float64, column after column; nothing is pickled. One Parquet file per run would be 85,000 files at size "cpu"; the tidy
Parquet table beside the store is written at the end of a command.
"""

import fcntl
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from gradorder_lab.errors import LabError
from gradorder_lab.runs.origin import CONTENT
from gradorder_lab.runs.recipe import Recipe, Rows, Setting, identified

STORE = "runs.sqlite"
"""The file that an output directory keeps its runs in."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS environments (id INTEGER PRIMARY KEY, facts TEXT NOT NULL UNIQUE)",
    """CREATE TABLE IF NOT EXISTS recipes (
    id INTEGER PRIMARY KEY, experiment TEXT NOT NULL, revision INTEGER NOT NULL, settings TEXT NOT NULL,
    UNIQUE (experiment, revision, settings))""",
    """CREATE TABLE IF NOT EXISTS runs (
    recipe INTEGER NOT NULL REFERENCES recipes, seed INTEGER NOT NULL,
    environment INTEGER NOT NULL REFERENCES environments, seconds REAL NOT NULL,
    columns TEXT NOT NULL, numbers BLOB NOT NULL, PRIMARY KEY (recipe, seed)) WITHOUT ROWID""",
)


class StoreError(LabError):
    """The directory cannot be used to keep runs in."""


@dataclass(frozen=True, eq=False)
class StoredRun:
    """One run as it is kept; `environment` counts the entries of `Store.environments` from 0."""

    experiment: str
    revision: int
    settings: Mapping[str, Setting]
    seed: int
    environment: int
    seconds: float
    rows: Rows

    @property
    def identity(self) -> str:
        """Of its recipe."""
        return identified(self.experiment, self.revision, self.settings)


class Store:
    """The finished runs of one output directory.

    Args:
        directory: made if it is not there.
        environment: what the runs added from here on were made with (versions, threads, machine).

    Raises:
        StoreError: the directory or its file cannot be used; the message names it and says why.
    """

    def __init__(self, directory: Path, environment: Mapping[str, Setting] | None = None) -> None:
        self.path = directory / STORE
        self._facts = json.dumps(dict(environment or {}), sort_keys=True)
        with _named(self.path):
            directory.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            for statement in _TABLES:
                self._connection.execute(statement)
            self._check_contents(environment or {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def add(self, recipe: Recipe, seed: int, rows: Rows, seconds: float) -> None:
        """Keep a finished run, all of it or nothing. A run that is there already stays as it is."""
        numbers = zlib.compress(np.array(list(rows.values()), dtype="<f8").tobytes())
        with _named(self.path), self._transaction():
            keys = (self._recipe_id(recipe, insert=True), seed, self._environment_id())
            values = (*keys, seconds, json.dumps(list(rows)), numbers)
            self._connection.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?)", values)

    def seeds(self, recipe: Recipe) -> set[int]:
        """The seeds with which this recipe has been run."""
        query = "SELECT seed FROM runs WHERE recipe = ?"
        with _named(self.path):
            return {seed for (seed,) in self._connection.execute(query, (self._recipe_id(recipe),))}

    def rows(self, recipe: Recipe) -> dict[int, Rows]:
        """The rows of every run of this recipe, by seed in increasing order."""
        known = self._recipe_id(recipe)
        return {} if known is None else {run.seed: run.rows for run in self._runs(recipe.experiment, known)}

    def every_run(self, experiment: str | None = None) -> Iterator[StoredRun]:
        """All runs of this experiment, or of all, recipe after recipe, those that are no longer known among them."""
        return self._runs(experiment, None)

    def _runs(self, experiment: str | None, recipe: int | None) -> Iterator[StoredRun]:
        query = (
            "SELECT experiment, revision, settings, seed, environment, seconds, columns, numbers FROM runs"
            " JOIN recipes ON recipes.id = runs.recipe"
            " WHERE experiment = coalesce(?, experiment) AND recipe = coalesce(?, recipe) ORDER BY recipe, seed"
        )
        with _named(self.path):
            numbers = self._connection.execute("SELECT id FROM environments ORDER BY id").fetchall()
            places = {number: place for place, (number,) in enumerate(numbers)}
            found = self._connection.execute(query, (experiment, recipe))
            for name, revision, settings, seed, environment, *rest in found:
                seconds, *rows = rest
                yield StoredRun(name, revision, json.loads(settings), seed, places[environment], seconds, _rows(*rows))

    def num_runs(self) -> int:
        """How many runs are kept."""
        with _named(self.path):
            return int(self._connection.execute("SELECT count(*) FROM runs").fetchone()[0])

    def environments(self) -> list[dict[str, Setting]]:
        """What the runs were made with."""
        with _named(self.path):
            found = self._connection.execute("SELECT facts FROM environments ORDER BY id").fetchall()
        return [json.loads(facts) for (facts,) in found]

    def _check_contents(self, environment: Mapping[str, Setting]) -> None:
        """Runs on other data, or of another network by the same name, must not be taken for these."""
        for known in self.environments():
            for name in known.keys() & environment.keys():
                if name.startswith(CONTENT) and known[name] != environment[name]:
                    what = name.removeprefix(CONTENT)
                    raise StoreError(
                        f"{self.path} holds runs with another {what} ({known[name]}, now {environment[name]}): "
                        "choose another --out"
                    )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _recipe_id(self, recipe: Recipe, *, insert: bool = False) -> int | None:
        name, revision, settings = json.loads(recipe.identity)
        identity = (name, revision, json.dumps(settings, sort_keys=True))
        if insert:
            self._connection.execute(
                "INSERT OR IGNORE INTO recipes (experiment, revision, settings) VALUES (?, ?, ?)", identity
            )
        query = "SELECT id FROM recipes WHERE experiment = ? AND revision = ? AND settings = ?"
        found = self._connection.execute(query, identity).fetchone()
        return None if found is None else int(found[0])

    def _environment_id(self) -> int:
        self._connection.execute("INSERT OR IGNORE INTO environments (facts) VALUES (?)", (self._facts,))
        found = self._connection.execute("SELECT id FROM environments WHERE facts = ?", (self._facts,)).fetchone()
        return int(found[0])


def _rows(columns: str, numbers: bytes) -> Rows:
    names = json.loads(columns)
    table = np.frombuffer(zlib.decompress(numbers), dtype="<f8").reshape(len(names), -1)
    return dict(zip(names, table, strict=True))


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of the file system and of SQLite, with the file that they are about."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise StoreError(f"{path} cannot be used: {reason}") from error


def has_runs(directory: Path) -> bool:
    """Whether something was run there."""
    return (directory / STORE).exists()


@contextmanager
def only_one(directory: Path) -> Iterator[None]:
    """Refuse to run while another process runs in the same directory. The lock ends with its process."""
    path = directory / ".lock"
    with _named(path):
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with closing(os.fdopen(handle)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(
                f"another gradorder is running in {directory}: wait for it or choose another --out"
            ) from error
        yield

"""The rows of every run as scalars for TensorBoard: one directory per run.

    DIR/experiment/settings-0123456789/seed-0

A directory is there with all of its rows or not at all, and is never written twice.
"""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

from gradorder_lab.errors import LabError
from gradorder_lab.runs.recipe import Recipe, Rows

_LONGEST_NAME = 80
_STEPS = ("updates", "epoch")
"""The columns that may be the step of the scalars, the first one found."""


class TensorBoardLog:
    """Writes runs below a directory.

    Args:
        directory: made if it is not there.

    Raises:
        LabError: TensorBoard is not installed, or the directory cannot be made.
    """

    def __init__(self, directory: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise LabError('--tensorboard needs TensorBoard: pip install "gradorder-lab[tensorboard]"') from error
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(
                f"--tensorboard must be a directory that can be written to, got {directory}: {error.strerror}"
            ) from error
        self.directory = directory
        self._writer: Any = SummaryWriter

    def add(self, recipe: Recipe, seed: int, rows: Rows) -> None:
        """Write one run, unless it is there."""
        path = self.path_of(recipe, seed)
        if path.exists():
            return
        unfinished = path.with_name(f".{path.name}")
        shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
        with self._writer(str(unfinished)) as writer:
            writer.add_text("recipe", json.dumps(dict(recipe.settings) | {"revision": recipe.revision, "seed": seed}))
            for row, step in enumerate(steps(rows)):
                for name, values in rows.items():
                    writer.add_scalar(name, float(values[row]), step)
        unfinished.replace(path)

    def path_of(self, recipe: Recipe, seed: int) -> Path:
        """Where a run is written: readable, safe as a name, and another one for other settings."""
        words = [str(value) for value in recipe.settings.values() if isinstance(value, str)]
        name = re.sub(r"[^A-Za-z0-9.]+", "-", " ".join(words)).strip("-.")[:_LONGEST_NAME]
        digest = hashlib.sha256(recipe.identity.encode()).hexdigest()[:10]
        experiment = re.sub(r"[^A-Za-z0-9.-]+", "-", recipe.experiment)
        return self.directory / experiment / f"{name}-{digest}" / f"seed-{seed}"


def steps(rows: Rows) -> list[int]:
    """The step of every row: updates where they are counted, else epochs, else the place of the row."""
    for name in _STEPS:
        if name in rows and all(float(value).is_integer() for value in rows[name]):
            return [int(value) for value in rows[name]]
    return list(range(len(next(iter(rows.values())))))

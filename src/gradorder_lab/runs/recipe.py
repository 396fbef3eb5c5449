"""A recipe: everything that one run needs to be repeated, except its seed; and what a run may use."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Setting = str | int | float | None
Rows = Mapping[str, Array]
"""The rows of one run, column by column: name -> one number per row."""

Size = Literal["mini", "cpu", "paper"]
"""How much is run: minutes, what two cores can do, what the paper ran."""

SIZES: tuple[Size, ...] = ("mini", "cpu", "paper")


@dataclass(frozen=True)
class Workspace:
    """What a run may use. Nothing here may change a row, but for the device and the number of threads.

    Args:
        checkpoints: directory for checkpoints; without it a run that is stopped starts again.
        data: directory with the original files of the data sets.
        device: as torch names it.
        threads: of each process.
    """

    checkpoints: Path | None = None
    data: Path | None = None
    device: str = "cpu"
    threads: int = 1


@dataclass(frozen=True)
class Recipe(ABC):
    """One method on one problem. Whatever is run is a final frozen dataclass of plain settings.

    Recipes of one experiment that are run with one seed share data, start and random orders: they are paired.
    """

    revision: ClassVar[int]
    """Raised whenever the code gives other numbers for the same settings: old rows are then no longer used."""

    later: ClassVar[frozenset[str]] = frozenset()
    """Settings that came when there were rows already: with their defaults they are left out, so that those count."""

    experiment: str

    @final
    @property
    def settings(self) -> Mapping[str, Setting]:
        """What distinguishes it within its experiment: plain values, and rules by what they are written as."""
        known = {name: repr(value) if is_dataclass(value) else value for name, value in vars(self).items()}
        plain = {name: value for name, value in known.items() if isinstance(value, Setting)}
        unsaid = {one.name: one.default for one in fields(self) if one.name in self.later}
        return {
            name: value
            for name, value in plain.items()
            if name != "experiment" and not (name in unsaid and value == unsaid[name])
        }

    @final
    @property
    def identity(self) -> str:
        """The same for the same recipe, in any process, on any machine."""
        return identified(self.experiment, self.revision, self.settings)

    @property
    def family(self) -> str:
        """Recipes of one family and seed are run one after the other, because they share work; else its own."""
        return self.identity

    @property
    def stage(self) -> int:
        """Recipes of a later stage build on what those of an earlier one leave behind."""
        return 0

    def contents(self, data: Path | None) -> Mapping[str, str]:  # noqa: ARG002 - of recipes that read files
        """What it is made from, as hashes: the data and the network's start, by name.

        Raises:
            LabError: it is not there, so that nothing can be run.
        """
        return {}

    @abstractmethod
    def run(self, seed: int, workspace: Workspace | None = None) -> Rows:
        """Run it."""


def identified(experiment: str, revision: int, settings: Mapping[str, Setting]) -> str:
    """A recipe as text."""
    return json.dumps([experiment, revision, dict(settings)], sort_keys=True)

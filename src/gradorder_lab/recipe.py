"""A recipe: everything that one run needs to be repeated, except its seed."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from gradorder_lab.workspace import Workspace

Setting = str | int | float | None
Rows = Mapping[str, NDArray[np.float64]]
"""The rows of one run, column by column: name -> one number per row."""


@dataclass(frozen=True)
class Recipe(ABC):
    """One method on one problem. Every subclass is a final frozen dataclass of plain settings.

    Recipes of one experiment that are run with one seed share data, start and random orders: they are paired.
    """

    revision: ClassVar[int]
    """Raised whenever the code gives other numbers for the same settings: old rows are then no longer used."""

    experiment: str

    @final
    @property
    def settings(self) -> Mapping[str, Setting]:
        """What distinguishes it within its experiment: plain values, and rules by what they are written as."""
        known = {name: repr(value) if is_dataclass(value) else value for name, value in vars(self).items()}
        plain = {name: value for name, value in known.items() if isinstance(value, Setting)}
        return {name: value for name, value in plain.items() if name != "experiment"}

    @property
    @abstractmethod
    def family(self) -> str:
        """Recipes of one family and seed are run one after the other, because they share work."""

    @property
    def stage(self) -> int:
        """Recipes of a later stage build on what those of an earlier one leave behind."""
        return 0

    @property
    def is_data_parallel(self) -> bool:
        """Whether the processes of torchrun share a run."""
        return False

    @abstractmethod
    def run(self, seed: int, workspace: Workspace | None = None) -> Rows:
        """Run it."""

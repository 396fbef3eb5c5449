"""One method on one task with one step size and one budget."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Self, final

import numpy as np

from gradorder_lab.benchmark.task import Task
from gradorder_lab.methods import named
from gradorder_lab.runs.recipe import Recipe, Rows, Setting, Workspace
from gradorder_lab.training.network import train
from gradorder_lab.training.recipe import OptimizerName, Training

EXPERIMENT = "compare"

_NOT_OF_A_RUN = {"name", "step_sizes", "seeds", "searches_methods"}
_OF_TASK = tuple(one.name for one in fields(Task) if one.name not in _NOT_OF_A_RUN)


@final
@dataclass(frozen=True, kw_only=True)
class CompareRecipe(Recipe):
    """A run of one row: accuracy and loss after the last step, and what it took.

    Args:
        method: a key of `METHODS`, or an ordering or selection of the user's own as `own.marked` names it.
        step_size: the first one.
        budget: how much of plain training's cost may be spent.
        validates: whether it is measured on a held-out part of the training set, to choose a step size.

    The others are the task's, see `Task`.
    """

    revision: ClassVar[int] = 8
    later: ClassVar[frozenset[str]] = frozenset({"optimizer", "crops", "mixed_precision"})

    experiment: str = EXPERIMENT
    method: str
    step_size: float
    budget: float
    validates: bool
    data: str
    model: str
    epochs: int
    batch_size: int
    num_train: int | None
    momentum: float
    weight_decay: float
    wrong_labels: float
    rarest: float
    flips: bool = False
    losses: str | None = None
    variant: str = ""
    optimizer: OptimizerName = "SGD"
    crops: bool = False
    mixed_precision: bool = False

    @classmethod
    def of(cls, task: Task, method: str, step_size: float, budget: float, *, validates: bool = False) -> Self:
        """The recipe for a task."""
        chosen = {"method": method, "step_size": step_size, "budget": budget, "validates": validates}
        return cls(**chosen, **{name: getattr(task, name) for name in _OF_TASK})  # type: ignore[arg-type]

    @property
    def task(self) -> Task:
        """What it learns, without a name."""
        return Task(name="", **{name: getattr(self, name) for name in _OF_TASK})

    @property
    def training(self) -> Training:
        """The network recipe."""
        return self.task.training(named(self.method), self.step_size, budget=self.budget, validates=self.validates)

    def run(self, seed: int, workspace: Workspace | None = None) -> Rows:
        """Train and measure; `started` is when, in seconds since 1970."""
        started = time.time()
        training = self.training
        run = training.start(seed, workspace)
        train(run, training.length)
        run.note()
        return {**run.rows(), "started": np.array([started])}


def task_settings(task: Task) -> dict[str, Setting]:
    """What the settings of every run of a task have in common."""
    return only_of_task(CompareRecipe.of(task, "", 0.0, 0.0).settings)


def only_of_task(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """What a run's settings say of its task."""
    return {name: value for name, value in settings.items() if name in _OF_TASK}

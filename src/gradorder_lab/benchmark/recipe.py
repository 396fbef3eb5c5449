"""One method on one task with one step size and one budget."""

import contextlib
import math
import time
from dataclasses import dataclass, fields
from functools import partial
from typing import ClassVar, Self, final

import numpy as np
import torch

from gradorder import NonFiniteScoresError
from gradorder_lab.benchmark import task as tasks
from gradorder_lab.benchmark.methods import Circumstances, named
from gradorder_lab.benchmark.task import Split, Task
from gradorder_lab.data.augmentation import epoch_moves, random_crop_and_flip
from gradorder_lab.data.examples import Augment
from gradorder_lab.runs.recipe import Recipe, Rows, Setting, Workspace
from gradorder_lab.training.network import NetworkRun, Strategy, train_one_epoch
from gradorder_lab.training.step_sizes import half_cosine_over_epochs

EXPERIMENT = "compare"

_OF_TASK = tuple(one.name for one in fields(Task) if one.name not in {"name", "step_sizes", "seeds"})


@final
@dataclass(frozen=True, kw_only=True)
class CompareRecipe(Recipe):
    """A run of one row: accuracy and loss after the last step, and what it took.

    Args:
        method: a key of `METHODS`, or an ordering of the user's own as `own.marked` names it.
        step_size: the first one.
        budget: how much of plain training's cost may be spent.
        validates: whether it is measured on a held-out part of the training set, to choose a step size.

    The others are the task's, see `Task`.
    """

    revision: ClassVar[int] = 7

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

    @classmethod
    def of(cls, task: Task, method: str, step_size: float, budget: float, *, validates: bool = False) -> Self:
        """The recipe for a task."""
        chosen = {"method": method, "step_size": step_size, "budget": budget, "validates": validates}
        return cls(**chosen, **cls.settings_of(task))  # type: ignore[arg-type]

    @staticmethod
    def settings_of(task: Task) -> dict[str, Setting]:
        """What every run of a task has in common."""
        return {name: getattr(task, name) for name in _OF_TASK}

    @property
    def task(self) -> Task:
        """What it learns, without a name."""
        return Task(name="", **{name: getattr(self, name) for name in _OF_TASK})

    def run(self, seed: int, workspace: Workspace | None = None) -> Rows:
        """Train and measure; `started` is when, in seconds since 1970."""
        started = time.time()
        directory = None if workspace is None else workspace.data
        split = tasks.load_split(self.task, directory, validates=self.validates, seed=seed)
        method = named(self.method)
        given = Circumstances(
            split.train.labels, self.batch_size, self.epochs, self.budget, seed, tasks.own_losses(self.task)
        )
        length = method.length(self.epochs, self.budget)
        run = benchmark_run(self.task, split, method.build(given), step_size=self.step_size, length=length, seed=seed)
        # Where the step size is too large for it, a method that looks at losses ends when they are not finite any
        # more, and is judged by what it has then; one that does not look goes on for nothing.
        with contextlib.suppress(NonFiniteScoresError):
            for epoch, part in _epochs(length):
                train_one_epoch(run, epoch, part)
        run.note()
        return {**run.rows(), "started": np.array([started])}


def benchmark_run(
    task: Task, split: Split, strategy: Strategy, *, step_size: float, length: float, seed: int
) -> NetworkRun:
    """The run before its first step; it lasts `length` epochs, the last one cut to whole steps.

    The learning rate is the same function of progress for every method: half a cosine over the epochs, whether or not
    the number of steps is known in advance.
    """
    model = tasks.make_model(task.model, split, seed)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=step_size, momentum=task.momentum, weight_decay=task.weight_decay
    )

    def flips(epoch: int) -> Augment:
        return partial(random_crop_and_flip, generator=epoch_moves(seed, epoch), padding=0)

    return NetworkRun(
        model,
        optimizer,
        strategy,
        half_cosine_over_epochs(step_size, length),
        split.train,
        {"test": split.test},
        augmentation=flips if task.flips else None,
        losses=tasks.own_losses(task),
    )


def _epochs(length: float) -> list[tuple[int, float]]:
    """Every epoch with the part of it that is run."""
    return [(epoch, min(1.0, length - epoch)) for epoch in range(math.ceil(length))]

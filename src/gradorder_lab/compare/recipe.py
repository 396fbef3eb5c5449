"""One method on one task with one step size and one budget."""

import json
from dataclasses import dataclass, fields
from typing import ClassVar, Self, final

import numpy as np

from gradorder_lab.compare import task as tasks
from gradorder_lab.compare.methods import Setting, named
from gradorder_lab.compare.task import Task
from gradorder_lab.compare.training import Run
from gradorder_lab.neural.evaluation import evaluate
from gradorder_lab.recipe import Recipe, Rows
from gradorder_lab.workspace import Workspace

EXPERIMENT = "compare"

_OF_TASK = tuple(one.name for one in fields(Task) if one.name not in {"name", "step_sizes"})


@final
@dataclass(frozen=True, kw_only=True)
class CompareRecipe(Recipe):
    """A run of one row: accuracy and loss after the last step, and what it took.

    Args:
        method: a key of `METHODS`, or an ordering of the user's own as `own.identified` names it.
        step_size: the first one.
        budget: how much of plain training's cost may be spent.
        validates: whether it is measured on a held-out part of the training set, to choose a step size.

    The others are the task's, see `Task`.
    """

    revision: ClassVar[int] = 3

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

    @classmethod
    def of(cls, task: Task, method: str, step_size: float, budget: float, *, validates: bool = False) -> Self:
        """The recipe for a task."""
        settings = {name: getattr(task, name) for name in _OF_TASK}
        return cls(method=method, step_size=step_size, budget=budget, validates=validates, **settings)

    @property
    def task(self) -> Task:
        """What it learns, without a name."""
        return Task(name="", **{name: getattr(self, name) for name in _OF_TASK})

    @property
    def family(self) -> str:
        """Its own: it shares nothing."""
        return json.dumps(dict(self.settings), sort_keys=True)

    def run(self, seed: int, workspace: Workspace | None = None) -> Rows:
        """Train and measure."""
        split = tasks.load(self.task, None if workspace is None else workspace.data, validates=self.validates)
        method = named(self.method)
        setting = Setting(split.train.labels, self.batch_size, self.epochs, self.budget, seed)
        model = tasks.make_model(self.model, split, seed)
        run = Run(
            model,
            split.train,
            method.build(setting),
            method.num_epochs(self.epochs, self.budget),
            self.step_size,
            self.momentum,
            self.weight_decay,
        )
        cost = run.to_the_end()
        loss, accuracy = evaluate(model, split.test)
        values = {"accuracy": accuracy, "loss": loss} | vars(cost)
        return {name: np.array([float(value)]) for name, value in values.items()}

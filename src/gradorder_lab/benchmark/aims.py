"""What the default was to reach on every task, fixed before it was run there: whatever is missed is said."""

from dataclasses import dataclass
from math import isnan
from typing import Self

from gradorder_lab.benchmark import standard_tasks as tasks
from gradorder_lab.benchmark.standings import GRADIENTS, Standing, Standings
from gradorder_lab.training.network import CLOCK

MOST_GRADIENTS = {
    tasks.MNIST.name: 0.5,
    tasks.MNIST_DEEP.name: 0.5,
    tasks.FASHION_MNIST.name: 0.6,
    tasks.FASHION_MNIST_DEEP.name: 0.6,
    tasks.TERRAIN.name: 0.8,
    tasks.WRONG_LABELS.name: 0.8,
}
"""As a share of plain training's, over as many epochs; 1 on every other task."""

MOST_TIME = 1.05
"""Its share of plain training's processor time, over its share of the gradients."""


@dataclass(frozen=True)
class Missed:
    """Which aims a method misses on a task; over as many epochs as plain training.

    Args:
        gradients: it takes more than `MOST_GRADIENTS`.
        time: it takes more than `MOST_TIME`; None where the two were not timed together.
        accuracy: it ends behind random reshuffling by more than the task's margin, in the mean over seeds.
    """

    gradients: bool
    time: bool | None
    accuracy: bool

    @classmethod
    def of(cls, found: Standings, row: Standing) -> Self:
        """By a row of these standings."""
        gradients, time = row.spent[GRADIENTS], row.spent[CLOCK]
        return cls(
            gradients > MOST_GRADIENTS.get(found.task, 1.0),
            None if isnan(time) else time > MOST_TIME * gradients,
            row.difference.mean < -found.margin,
        )

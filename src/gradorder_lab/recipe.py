"""A recipe: everything that one run needs to be repeated."""

from collections.abc import Callable
from dataclasses import dataclass

import gradorder as go
from gradorder.layouts import Layout
from gradorder.schedules import Schedule
from gradorder_lab.tasks import Task


@dataclass(frozen=True)
class Recipe:
    """One method on one task.

    Args:
        task_name: for tables.
        task: seed -> task.
        method: for tables.
        batch_size: examples drawn for a step (S in the paper).
        schedule: step sizes.
        epochs: how many.
        ordering: the order of the epoch; Algorithms 1 and 3 sort it, 2 and 4 leave it random.
        layout: how a sorted epoch becomes batches.
        start_epoch: random before it.
        keep_in_batch: the hardest fraction of each batch to train on (q / S): Algorithms 2 and 4.
        one_at_a_time: one update per example (Algorithms 1 and 2) instead of one per batch (3 and 4).
        balanced: equal numbers of each class in each batch.
    """

    task_name: str
    task: Callable[[int], Task]
    method: str
    batch_size: int
    schedule: Schedule
    epochs: int
    ordering: go.Ordering = go.Shuffled()  # noqa: RUF009 - frozen
    layout: Layout = "contiguous"
    start_epoch: int = 0
    keep_in_batch: float = 1.0
    one_at_a_time: bool = False
    balanced: bool = False

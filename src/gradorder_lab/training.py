"""Algorithms 1 to 4 by the library's own sampler, scores and selection, in a loop that a user would write."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
import torch
from torch.utils.data import DataLoader

import gradorder as go
from gradorder.batches import Batch, num_examples, take
from gradorder.sampler import Layout
from gradorder.schedules import Schedule
from gradorder_lab.recipe import Recipe, Rows
from gradorder_lab.tasks import Task
from gradorder_lab.workspace import Workspace


@final
@dataclass(frozen=True, kw_only=True)
class TrainingRecipe(Recipe):
    """One method on one task.

    Args:
        experiment: the experiment that it belongs to.
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

    revision: ClassVar[int] = 1

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

    @property
    def family(self) -> str:
        """Nothing is shared."""
        return self.task_name

    def run(self, seed: int, workspace: Workspace | None = None) -> Rows:
        """Train, and note the metric and the cost at the start and after every epoch."""
        del workspace
        training = Training(self, self.task(seed), seed)
        training.note(0)
        for epoch in range(self.epochs):
            started = time.perf_counter()
            train_one_epoch(training, epoch)
            training.cost.seconds += time.perf_counter() - started
            training.note(epoch + 1)
        names = ("epoch", "metric", "trained", "scored", "seconds")
        return dict(zip(names, np.array(training.notes).T.copy(), strict=True))


@dataclass
class Cost:
    """What a run has spent so far."""

    examples_trained: int = 0
    examples_scored: int = 0
    seconds: float = 0.0


@dataclass(eq=False)
class Training:
    """The moving parts of one run."""

    recipe: TrainingRecipe
    task: Task
    seed: int
    cost: Cost = field(default_factory=Cost)
    notes: list[tuple[float, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        recipe, task = self.recipe, self.task
        self.score = go.GradientNorm(task.losses)
        self.select = go.KeepHardest(recipe.keep_in_batch, score=self.score)
        self.sampler = go.OrderedSampler(
            task.train,
            recipe.batch_size,
            ordering=recipe.ordering,
            labels=task.labels if recipe.balanced else None,
            layout=recipe.layout,
            start_epoch=recipe.start_epoch,
            seed=self.seed,
        )
        self.loader = DataLoader(
            task.train,
            batch_size=self.sampler.loader_batch_size,
            sampler=self.sampler,
            generator=torch.Generator().manual_seed(self.seed),
        )
        self.optimizer = torch.optim.SGD(task.model.parameters(), lr=recipe.schedule.a)
        self.num_updates = 0

    def update(self, batch: Batch, epoch: int) -> None:
        """One step on the mean loss of a batch."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.schedule(self.num_updates, epoch)
        self.optimizer.zero_grad()
        self.task.losses(self.task.model, batch).mean().backward()
        self.optimizer.step()
        self.num_updates += 1

    def note(self, epoch: int) -> None:
        """Where the run stands."""
        cost, metric = self.cost, self.task.metric(self.task.model)
        self.notes.append((epoch, metric, cost.examples_trained, cost.examples_scored, cost.seconds))


def train_one_epoch(training: Training, epoch: int) -> None:
    """All four algorithms of the paper, and random reshuffling, are this loop."""
    recipe, task = training.recipe, training.task

    def scores() -> torch.Tensor:
        training.cost.examples_scored += len(task.train)
        return go.score_dataset(task.model, task.train, training.score)

    training.sampler.set_epoch(epoch, scores=scores)
    for whole_batch in training.loader:
        batch = whole_batch
        if recipe.keep_in_batch < 1 and epoch >= recipe.start_epoch:
            training.cost.examples_scored += num_examples(batch)
            batch = training.select(task.model, batch)
        for part in _one_by_one(batch) if recipe.one_at_a_time else [batch]:
            training.update(part, epoch)
        training.cost.examples_trained += num_examples(batch)
        training.sampler.step()


def _one_by_one(batch: Batch) -> Iterator[Batch]:
    for index in range(num_examples(batch)):
        yield take(batch, torch.tensor([index]))

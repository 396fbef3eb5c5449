"""recipe -> rows: train with the library and note what it cost."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import torch
from torch.utils.data import DataLoader

import gradorder as go
from gradorder.batches import Batch, num_examples, take
from gradorder_lab.recipe import Recipe
from gradorder_lab.tasks import Task


@dataclass(frozen=True)
class Row:
    """One epoch of one run. Epoch 0 is the start, before any step."""

    task: str
    method: str
    seed: int
    epoch: int
    metric: float
    examples_trained: int
    examples_scored: int
    seconds: float

    def as_dict(self) -> dict[str, str | int | float]:
        """For a table."""
        return asdict(self)


@dataclass
class Cost:
    """What a run has spent so far."""

    examples_trained: int = 0
    examples_scored: int = 0
    seconds: float = 0.0


@dataclass(eq=False)
class Training:
    """The moving parts of one run."""

    recipe: Recipe
    task: Task
    seed: int
    cost: Cost = field(default_factory=Cost)

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

    def row(self, epoch: int) -> Row:
        """Where the run stands."""
        cost = self.cost
        return Row(
            task=self.recipe.task_name,
            method=self.recipe.method,
            seed=self.seed,
            epoch=epoch,
            metric=self.task.metric(self.task.model),
            examples_trained=cost.examples_trained,
            examples_scored=cost.examples_scored,
            seconds=cost.seconds,
        )


def run(recipe: Recipe, seed: int) -> Iterator[Row]:
    """Train one recipe with one seed, a row per epoch."""
    training = Training(recipe, recipe.task(seed), seed)
    yield training.row(0)
    for epoch in range(recipe.epochs):
        started = time.perf_counter()
        train_one_epoch(training, epoch)
        training.cost.seconds += time.perf_counter() - started
        yield training.row(epoch + 1)


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

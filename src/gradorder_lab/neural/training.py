"""The training loop: one epoch on one screen; the rest is what it needs."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder.batches import Batch
from gradorder.ranks import world_size
from gradorder.sampler import Layout
from gradorder_lab import datasets, models
from gradorder_lab.datasets import ImageDataset, random_crop_and_flip
from gradorder_lab.errors import LabError
from gradorder_lab.neural import checkpoint, processes
from gradorder_lab.neural.evaluation import evaluate
from gradorder_lab.neural.step_sizes import step_size_named
from gradorder_lab.recipe import Rows
from gradorder_lab.workspace import Workspace

if TYPE_CHECKING:
    from gradorder_lab.neural.recipe import NeuralRecipe

MODELS: Mapping[str, Callable[..., nn.Module]] = {
    "2-layer": models.mlp,
    "7-layer": models.small_conv_net,
    "resnet20": models.resnet20,
    "resnet18": models.resnet18,
}
SCORES: Mapping[str, Callable[[nn.Module, Batch], torch.Tensor]] = {
    "gradient norm": go.GradientNorm(),
    "last-layer bound": go.LastLayerBound(),
    "logit error": go.LogitError(),
    "loss": go.Loss(),
}
_WITH_BACKWARD = ("gradient norm",)
_SCORED_AT_ONCE = 500


@dataclass
class Cost:
    """What a run has spent so far; passes are counted in examples, over all processes."""

    updates: int = 0
    trained: int = 0
    scored: int = 0
    forward: int = 0
    backward: int = 0
    seconds: float = 0.0
    score_seconds: float = 0.0


@dataclass(eq=False)
class Training:
    """The moving parts of one run. The epochs before its start epoch are another run's: the random one's.

    Under torchrun every process has one, and they meet in `settle`: after an epoch all are the same.
    """

    recipe: "NeuralRecipe"
    seed: int
    device: torch.device
    train: ImageDataset
    test: ImageDataset
    cost: Cost = field(default_factory=Cost)
    notes: list[list[float]] = field(default_factory=list)
    next_epoch: int = 0

    def __post_init__(self) -> None:
        recipe = self.recipe
        # Convolutions are faster with the channels last; a layout changes rounding, never what is computed.
        self.model = _model(recipe, self.train, self.seed).to(self.device)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        processes.copy_from_first_(self.model.state_dict().values())
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=recipe.step_size, momentum=recipe.momentum, weight_decay=recipe.weight_decay
        )
        random, ordered = _samplers(recipe, self.train, self.seed)
        self.sampler = random if ordered is None else ordered
        self.step_size = step_size_named(
            recipe.schedule, recipe.step_size, steps_per_epoch=random.num_steps(0, 1), epochs=recipe.epochs
        )
        self.score = SCORES[recipe.score]
        self.select = go.KeepHardest(recipe.keep, score=self.score) if _selects(recipe) else None

    def batches(self, epoch: int) -> Iterator[torch.Tensor]:
        """The examples of each batch of this epoch; under torchrun, of this process's slice of it."""
        self.sampler.set_epoch(epoch, scores=self.scores)
        # Not torch.tensor(list(...)): for a small network that alone is 2% of the epoch.
        indices = torch.from_numpy(np.fromiter(self.sampler, np.int64, len(self.sampler)))
        for batch in indices.split(self.sampler.loader_batch_size):
            yield batch
            self.sampler.step()

    def scores(self) -> torch.Tensor:
        """The score of every training example at the current weights."""
        parts = processes.own(torch.arange(len(self.train), device=self.device).split(_SCORED_AT_ONCE))
        indices = torch.cat([torch.arange(0, device=self.device), *parts])
        with self.scoring(len(indices)):
            scored = [self.score(self.model, self.train.batch(part)) for part in parts]
            return processes.in_order(indices, torch.cat([torch.empty(0, device=self.device), *scored]))

    def selected(self, batch: Batch) -> Batch:
        """Algorithm 4: the hardest part of the batch."""
        if self.select is None:
            return batch
        with self.scoring(len(batch[1])):
            return self.select(self.model, batch)

    def update(self, batch: Batch, epoch: int) -> None:
        """One step on the mean loss of a batch."""
        inputs, targets = batch
        for group in self.optimizer.param_groups:
            group["lr"] = self.step_size(self.cost.updates, epoch)
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(inputs), targets)
        if world_size() == 1:
            loss.backward()
        else:
            (loss * self.sampler.loss_scale).backward()
            processes.average_(cast("torch.Tensor", parameter.grad) for parameter in self.model.parameters())
        self.optimizer.step()
        self.cost.updates += 1
        num_examples = len(targets)
        self.cost.trained += num_examples
        self.cost.forward += num_examples
        self.cost.backward += num_examples

    def augmentation(self, epoch: int) -> Callable[[torch.Tensor], torch.Tensor] | None:
        """Random crops and flips from this epoch's own random numbers."""
        if not self.recipe.augment:
            return None
        state = np.random.SeedSequence((self.seed, epoch, 1)).generate_state(1, np.uint64)
        generator = torch.Generator(self.device).manual_seed(int(state[0]))
        of_batch = partial(random_crop_and_flip, generator=generator)
        return lambda images: processes.as_in_whole_batch(of_batch, images, self.sampler.loss_scale)

    @contextmanager
    def scoring(self, num_examples: int) -> Iterator[None]:
        """Count what scoring these examples costs."""
        started = self.clock()
        yield
        self.cost.score_seconds += self.clock() - started
        self.cost.scored += num_examples
        self.cost.forward += num_examples
        self.cost.backward += num_examples if self.recipe.score in _WITH_BACKWARD else 0

    def settle(self, before: Cost) -> None:
        """What the processes have done since then, put together; BatchNorm's running statistics are averaged."""
        counts = ("trained", "scored", "forward", "backward")
        spent = processes.summed(*(getattr(self.cost, name) - getattr(before, name) for name in counts))
        for name, number in zip(counts, spent, strict=True):
            setattr(self.cost, name, getattr(before, name) + int(number))
        processes.average_(self.model.buffers())

    def clock(self) -> float:
        """Seconds, once the device has done what it was asked for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def note(self) -> None:
        """Where the run stands, measured on all of the data, outside the clock."""
        measured = [number for data in (self.train, self.test) for number in evaluate(self.model, data)]
        self.notes.append([self.next_epoch, *measured, *(getattr(self.cost, one.name) for one in fields(Cost))])

    def rows(self) -> Rows:
        """What was noted, as columns."""
        names = ("epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy")
        columns = np.array(self.notes, dtype=np.float64).T.copy()
        return dict(zip((*names, *(one.name for one in fields(Cost))), columns, strict=True))

    def state(self) -> checkpoint.State:
        """Everything that the rest of the run depends on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "cost": vars(self.cost).copy(),
            "notes": [list(note) for note in self.notes],
            "next_epoch": self.next_epoch,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.cost = Cost(**state["cost"])
        self.notes = [list(note) for note in state["notes"]]
        self.next_epoch = state["next_epoch"]


def train_one_epoch(training: Training, epoch: int) -> None:
    """Random reshuffling, Algorithm 3 and Algorithm 4 are this loop."""
    started, before = training.clock(), replace(training.cost)
    augment = training.augmentation(epoch)
    training.model.train()
    for indices in training.batches(epoch):
        batch = training.train.batch(indices, augment)
        batch = training.selected(batch)
        training.update(batch, epoch)
    training.settle(before)
    training.cost.seconds += training.clock() - started


def run(recipe: "NeuralRecipe", seed: int, workspace: Workspace) -> Rows:
    """Train to the end, from the last checkpoint of this run or of the random epochs that it shares."""
    training = begin(recipe, seed, workspace)
    for epoch in range(training.next_epoch, recipe.epochs):
        _advance(training, epoch)
        _save(training, workspace)
    return training.rows()


def begin(recipe: "NeuralRecipe", seed: int, workspace: Workspace) -> Training:
    """Where the run stopped, or where it branches off, or its start."""
    train, test = processes.first_then_others(
        lambda: _data(recipe.data, recipe.size, recipe.num_train, workspace.data, workspace.device)
    )
    training = Training(recipe, seed, torch.device(workspace.device), train, test)
    state = _saved(recipe.checkpoint(seed, workspace), workspace)
    if state is None and recipe.start_epoch > 0:
        state = _warmed_up(recipe, seed, workspace)
    if state is not None:
        training.load(state)
    else:
        training.note()
    return training


def _saved(path: Path, workspace: Workspace) -> Mapping[str, Any] | None:
    """The checkpoint that the first process finds."""
    return None if workspace.checkpoints is None else processes.state_of_first(lambda: checkpoint.load(path))


def _warmed_up(recipe: "NeuralRecipe", seed: int, workspace: Workspace) -> Mapping[str, Any]:
    """The family's random run at the start epoch, trained as far as it is not there yet."""
    warm_up = recipe.warm_up
    found = _saved(warm_up.checkpoint(seed, workspace, recipe.start_epoch), workspace)
    if found is not None:
        return found
    training = begin(warm_up, seed, workspace)
    for epoch in range(training.next_epoch, recipe.start_epoch):
        _advance(training, epoch)
        _save(training, workspace)
    return training.state()


def _advance(training: Training, epoch: int) -> None:
    train_one_epoch(training, epoch)
    training.next_epoch = epoch + 1
    recipe = training.recipe
    if training.next_epoch % recipe.evaluate_every == 0 or training.next_epoch == recipe.epochs:
        training.note()


def _save(training: Training, workspace: Workspace) -> None:
    """The state to go on from, and, of a random run, the states that others branch off from."""
    recipe, seed, epoch = training.recipe, training.seed, training.next_epoch
    if workspace.checkpoints is None or not processes.is_first():
        return
    if recipe.method == "full random" and epoch in recipe.branch_epochs:
        checkpoint.save(training.state(), recipe.checkpoint(seed, workspace, epoch))
    checkpoint.save(training.state(), recipe.checkpoint(seed, workspace))


def _samplers(
    recipe: "NeuralRecipe", train: ImageDataset, seed: int
) -> tuple[go.OrderedSampler, go.OrderedSampler | None]:
    """Of the random epochs, and of those from the start epoch on where that is another one."""
    try:
        random = go.OrderedSampler(len(train), recipe.batch_size, ordering=go.Shuffled(), seed=seed)
        return random, _ordered_sampler(recipe, train, seed)
    except ValueError as error:  # a batch that the processes of torchrun cannot share
        raise LabError(f"{recipe.experiment}, {recipe.method}: {error}") from error


def _ordered_sampler(recipe: "NeuralRecipe", train: ImageDataset, seed: int) -> go.OrderedSampler | None:
    """The sampler from the start epoch on, where it is another one than before."""
    if recipe.method == "full random" or recipe.sort == "within":
        return None
    is_mini = recipe.method.startswith("mini")
    batch_size = max(1, round(recipe.keep * recipe.batch_size)) if is_mini else recipe.batch_size
    keep = recipe.keep if is_mini else 1.0
    if recipe.method == "mini random":
        return go.OrderedSampler(len(train), batch_size, ordering=go.Shuffled(), keep=keep, seed=seed)
    layout: Layout = "dealt" if recipe.sort == "first dealt" else "contiguous"
    return go.OrderedSampler(
        len(train), batch_size, ordering=go.Descending(), labels=train.labels, layout=layout, keep=keep, seed=seed
    )


def _selects(recipe: "NeuralRecipe") -> bool:
    return recipe.method == "mini ordered" and recipe.sort == "within"


def _model(recipe: "NeuralRecipe", train: ImageDataset, seed: int) -> nn.Module:
    """The network with the start of this seed, the same for every method."""
    settings: dict[str, int] = {"classes": train.num_classes}
    if recipe.model == "2-layer":
        settings["inputs"] = train.images[0].numel()
    if recipe.model == "7-layer":
        settings |= {"channels": train.images.shape[1], "size": train.images.shape[2]}
    if recipe.width is not None:
        settings["width"] = recipe.width
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[recipe.model](**settings)


@cache
def _data(
    name: str, size: datasets.Size, num_train: int | None, directory: Path | None, device: str
) -> tuple[ImageDataset, ImageDataset]:
    """Read once per process."""
    train, test = datasets.load(name, data_dir=directory, size=size)
    if num_train is not None:
        train = train.subset(num_train)
    return train.to(device), test.to(device)

"""What a network is trained on in the paper's experiments, how, and by which of the four methods."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import torch
from torch import nn

import gradorder as go
from gradorder.ranks import world_size
from gradorder.sampler import Layout
from gradorder.scores import Score
from gradorder_lab import data as data_sets
from gradorder_lab.data.augmentation import epoch_moves, random_crop_and_flip
from gradorder_lab.data.examples import Augment, without_some
from gradorder_lab.errors import DatasetError, LabError
from gradorder_lab.models.named import MODELS, started
from gradorder_lab.paper.experiment import Table
from gradorder_lab.runs import processes
from gradorder_lab.runs.origin import digest
from gradorder_lab.runs.recipe import Recipe, Rows, Size, Workspace
from gradorder_lab.runs.whole_file import load_checkpoint, save_checkpoint
from gradorder_lab.training.network import NetworkRun, Strategy, train_one_epoch
from gradorder_lab.training.step_sizes import step_size_named

LATE = 0.7
START_PARTS = (0.4, 0.5, LATE)
"""Where ordering starts, as parts of the run: the paper's 80, 100 and 140 of 200 epochs."""

Treatment = Literal["full random", "full ordered", "mini random", "mini ordered"]
"""All data or the kept part, in random order or ordered."""

Sort = Literal["none", "within", "first", "first dealt", "balanced"]
Variant = tuple[Treatment, Sort]
"""One of the paper's methods: what is kept, and how it is sorted."""

RANDOM: Variant = ("full random", "none")
BALANCED_RANDOM: Variant = ("full random", "balanced")
MINI_RANDOM: Variant = ("mini random", "none")

ScoreName = Literal["gradient norm", "last-layer bound", "logit error", "loss"]
SCORES: Mapping[str, Score] = {
    "gradient norm": go.GradientNorm(),
    "last-layer bound": go.LastLayerBound(),
    "logit error": go.LogitError(),
    "loss": go.Loss(),
}

TITLES = {name: source.title for name, source in data_sets.SOURCES.items()}
"""Data set -> as people write it."""


def start_epoch_at(part: float, epochs: int) -> int:
    """The epoch at this part of the run."""
    return round(part * epochs)


@final
@dataclass(frozen=True, kw_only=True)
class NeuralRecipe(Recipe):
    """One method on one data set with one network.

    Args:
        experiment: the experiment that it belongs to.
        data: name of the data set.
        size: which version of it is read.
        num_train: class-balanced subset of the training set; all of it for None.
        model: a key of `MODELS`.
        width: channels of the first stage of a residual network; its own default for None.
        method: on all data or the kept part, ordered or random.
        sort: Algorithm 4 sorts within each batch, Algorithm 3 sorts first: contiguous or dealt over the batches, each
            of which has as many of every class. Balanced: not sorted, with such batches.
        score: what the order is by.
        batch_size: S.
        keep: q / S of the mini methods.
        epochs: how many.
        start_epoch: random and complete before it, for every method.
        schedule: one of `step_sizes.SCHEDULES`, or "cosine".
        step_size: the first one.
        momentum: of SGD.
        weight_decay: of SGD.
        augment: random crops and flips.
        evaluate_every: epochs between the rows; the last epoch always has one.
        held_out: the part of the training set that is measured on, not trained on: to choose a step size.
    """

    revision: ClassVar[int] = 2
    is_data_parallel: ClassVar[bool] = True
    later: ClassVar[frozenset[str]] = frozenset({"held_out"})

    data: str
    size: Size = "paper"
    num_train: int | None = None
    model: str
    width: int | None = None
    method: Treatment = "full random"
    sort: Sort = "none"
    score: ScoreName = "gradient norm"
    batch_size: int = 128
    keep: float = 0.5
    epochs: int = 10
    start_epoch: int = 0
    schedule: str = "1/(1+t/n)"
    step_size: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    augment: bool = False
    evaluate_every: int = 1
    held_out: float = 0.0

    @property
    def stage(self) -> int:
        """Random runs first: those with a late start branch off from them."""
        return 1 if self.start_epoch else 0

    @property
    def is_trunk(self) -> bool:
        """Whether it is the random run."""
        return (self.method, self.sort) == RANDOM

    @property
    def branch_epochs(self) -> tuple[int, ...]:
        """Where other runs branch off from a random one."""
        return tuple(start_epoch_at(part, self.epochs) for part in START_PARTS)

    @property
    def warm_up(self) -> "NeuralRecipe":
        """The random run that it branches from."""
        return replace(
            self, method="full random", sort="none", score="gradient norm", keep=1.0, start_epoch=0, experiment=""
        )

    def run(self, seed: int, workspace: Workspace | None = None) -> Rows:
        """Train from the last checkpoint on; the random epochs come from those that the family has trained before."""
        workspace = workspace or Workspace()
        run = begin(self, seed, workspace)
        _advance(run, self, seed, workspace, self.epochs)
        return run.rows()

    def contents(self, data: Path | None) -> Mapping[str, str]:
        """Images and labels, and the network as seed 0 starts it."""
        found = _looked_for(self.data, self.size, data)
        if isinstance(found, DatasetError):
            raise found
        train, test = found
        network = (self.model, train.num_classes, tuple(train.images.shape[1:]), self.width)
        width = "" if self.width is None else f", width {self.width}"
        return {
            f"{self.data}, {self.size}": _images_hash(train, test),
            f"{self.model}{width}, for {self.data}": _model_hash(*network),
        }

    def checkpoint(self, seed: int, workspace: Workspace, epoch: int | None = None) -> Path:
        """Where its last state is kept, or, as a branch point for others, that after `epoch` epochs."""
        recipe = self.warm_up if self.is_trunk else self
        settings = {"experiment": recipe.experiment, **recipe.settings}
        where = (workspace.device, workspace.threads, *([world_size()] if world_size() > 1 else []))
        identity = json.dumps([self.revision, seed, *where, settings], sort_keys=True)
        name = hashlib.sha256(identity.encode()).hexdigest()[:24]
        directory = workspace.checkpoints or Path()
        return directory / (f"{name}.pt" if epoch is None else f"{name}-{epoch}.pt")


def begin(recipe: NeuralRecipe, seed: int, workspace: Workspace) -> NetworkRun:
    """Where the run stopped, or where it branches off, or its start."""
    train, test = processes.first_then_others(
        lambda: load_images(recipe.data, recipe.size, recipe.num_train, workspace.data, workspace.device)
    )
    measured = {"train": train, "test": test}
    if recipe.held_out:
        train, held_out = split_off(train, recipe.held_out)
        measured = {"train": train, "held_out": held_out, "test": test}
    run = network_run(recipe, seed, train, measured)
    state = _saved(recipe.checkpoint(seed, workspace), workspace)
    if state is None and recipe.start_epoch > 0:
        state = _warmed_up(recipe, seed, workspace)
    if state is not None:
        run.load(state)
    else:
        run.note()
    return run


def network_run(
    recipe: NeuralRecipe, seed: int, train: data_sets.ImageDataset, measured: Mapping[str, data_sets.ImageDataset]
) -> NetworkRun:
    """The run before its first epoch. The epochs before its start epoch are another run's: the random one's."""
    device = train.images.device
    shape = tuple(train.images.shape[1:])
    model = started(lambda: MODELS[recipe.model](train.num_classes, shape, recipe.width), seed).to(device)
    # Convolutions are faster with the channels last; a layout changes rounding, never what is computed.
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    processes.copy_from_first_(model.state_dict().values())
    optimizer = torch.optim.SGD(
        model.parameters(), lr=recipe.step_size, momentum=recipe.momentum, weight_decay=recipe.weight_decay
    )
    random, strategy = _strategies(recipe, train, seed)
    step_size = step_size_named(
        recipe.schedule, recipe.step_size, steps_per_epoch=random.num_steps(0, 1), epochs=recipe.epochs
    )
    run = NetworkRun(model, optimizer, strategy, step_size, train, measured, device)
    if recipe.augment:
        run.augmentation = partial(_crops_and_flips, strategy.sampler, seed, device)
    return run


def _crops_and_flips(sampler: go.OrderedSampler, seed: int, device: torch.device, epoch: int) -> Augment:
    """Random crops and flips from this epoch's own random numbers."""
    of_batch = partial(random_crop_and_flip, generator=epoch_moves(seed, epoch, device))
    return lambda images: processes.as_in_whole_batch(of_batch, images, sampler.loss_scale)


def _saved(path: Path, workspace: Workspace) -> Mapping[str, Any] | None:
    """The checkpoint that the first process finds."""
    return None if workspace.checkpoints is None else processes.state_of_first(lambda: load_checkpoint(path))


def _warmed_up(recipe: NeuralRecipe, seed: int, workspace: Workspace) -> Mapping[str, Any]:
    """The family's random run at the start epoch, trained as far as it is not there yet."""
    warm_up = recipe.warm_up
    found = _saved(warm_up.checkpoint(seed, workspace, recipe.start_epoch), workspace)
    if found is not None:
        return found
    run = begin(warm_up, seed, workspace)
    _advance(run, warm_up, seed, workspace, recipe.start_epoch)
    return run.state()


def _advance(run: NetworkRun, recipe: NeuralRecipe, seed: int, workspace: Workspace, last_epoch: int) -> None:
    """Train up to this epoch; measure and save on the way."""
    while run.next_epoch < last_epoch:
        try:
            train_one_epoch(run, run.next_epoch)
        except go.NonFiniteScoresError:
            if not recipe.held_out:
                raise
            run.next_epoch = recipe.epochs  # of the step sizes to choose from, one too large: judged by what it has
        if run.next_epoch % recipe.evaluate_every == 0 or run.next_epoch == recipe.epochs:
            run.note()
        _save(run, recipe, seed, workspace)


def _save(run: NetworkRun, recipe: NeuralRecipe, seed: int, workspace: Workspace) -> None:
    """The state to go on from, and, of a random run, the states that others branch off from."""
    if workspace.checkpoints is None or not processes.is_first():
        return
    if recipe.is_trunk and run.next_epoch in recipe.branch_epochs:
        save_checkpoint(run.state(), recipe.checkpoint(seed, workspace, run.next_epoch))
    save_checkpoint(run.state(), recipe.checkpoint(seed, workspace))


def _strategies(recipe: NeuralRecipe, train: data_sets.ImageDataset, seed: int) -> tuple[go.OrderedSampler, Strategy]:
    """The sampler of the random epochs, and what is done from the start epoch on."""
    try:
        random = go.OrderedSampler(len(train), recipe.batch_size, ordering=go.Shuffled(), seed=seed)
        return random, _strategy(recipe, random, train.labels, seed)
    except ValueError as error:  # a batch that the processes of torchrun cannot share
        raise LabError(f"{recipe.experiment}, {recipe.method}: {error}") from error


def _strategy(recipe: NeuralRecipe, random: go.OrderedSampler, labels: torch.Tensor, seed: int) -> Strategy:
    score = SCORES[recipe.score]
    if (recipe.method, recipe.sort) == ("mini ordered", "within"):
        return Strategy(random, select=go.KeepHardest(recipe.keep, score=score))
    if recipe.is_trunk or recipe.sort == "within":
        return Strategy(random)
    is_mini, is_ordered = recipe.method.startswith("mini"), recipe.method.endswith("ordered")
    layout: Layout = "dealt" if recipe.sort == "first dealt" else "contiguous"
    sampler = go.OrderedSampler(
        len(labels),
        max(1, round(recipe.keep * recipe.batch_size)) if is_mini else recipe.batch_size,
        ordering=go.Descending() if is_ordered else go.Shuffled(),
        labels=labels if is_ordered or recipe.sort == "balanced" else None,
        layout=layout,
        keep=recipe.keep if is_mini else 1.0,
        seed=seed,
    )
    return Strategy(sampler, score=score if is_ordered else None)


@cache
def load_images(
    name: str, size: Size, num_train: int | None, directory: Path | None, device: str
) -> tuple[data_sets.ImageDataset, data_sets.ImageDataset]:
    """Train and test set, read once per process."""
    train, test = data_sets.load(name, data_dir=directory, size=size)
    if num_train is not None:
        train = train.subset(num_train)
    return train.to(device), test.to(device)


@cache
def _looked_for(
    name: str, size: Size, directory: Path | None
) -> tuple[data_sets.ImageDataset, data_sets.ImageDataset] | DatasetError:
    """Train and test set, or why they cannot be had: a download is tried once for all recipes that ask."""
    try:
        return load_images(name, size, None, directory, "cpu")
    except DatasetError as error:
        return error


@cache
def split_off(train: data_sets.ImageDataset, part: float) -> tuple[data_sets.ImageDataset, data_sets.ImageDataset]:
    """The training set without a random part of it, and that part; the same in every run."""
    parts = (one.to(train.images.device) for one in without_some(len(train), round(part * len(train))))
    kept, held_out = (replace(train, images=train.images[one], labels=train.labels[one]) for one in parts)
    return kept, held_out


@cache
def _images_hash(train: data_sets.ImageDataset, test: data_sets.ImageDataset) -> str:
    return digest(array.numpy() for split in (train, test) for array in (split.images, split.labels))


@cache
def _model_hash(name: str, num_classes: int, shape: tuple[int, ...], width: int | None) -> str:
    build: Callable[[], nn.Module] = partial(MODELS[name], num_classes, shape, width)
    return digest(tensor.numpy() for tensor in started(build, 0).state_dict().values())


_SEVEN_LAYERS = "convolutions of 3 x 3 with 8, 16, 16, 16 channels and strides 2, 2, 1, 1; linear layers of 128, 64, 10"
_NETWORKS = {
    "2-layer": "784-128-10, ReLU",
    "7-layer": f"{_SEVEN_LAYERS}; the paper does not say",
    "resnet20": "ResNet-20",
    "resnet18": "ResNet-18 with the stem for CIFAR",
}


_OWN_COPY = {("cifar100", "cpu"): (10_000, 2_000)}
"""Where the files at hand held less than the data set does."""


def num_images(data: str, size: Size) -> tuple[int, int]:
    """Training and test images that the published runs of a size read."""
    source = data_sets.SOURCES[data]
    if size == "mini":
        return source.num_mini_train, source.num_mini_test
    return _OWN_COPY.get((data, size), (source.num_train, source.num_test))


def network_settings(recipe: NeuralRecipe, title: str, starts: str, networks: Sequence[str] = ()) -> Table:
    """What one needs to run it again, from the recipe of full random."""
    width = "" if recipe.width is None else f", width {recipe.width}"
    num_train, num_test = num_images(recipe.data, recipe.size)
    part = f"{recipe.num_train:,}, equally many of each class, of " if recipe.num_train else ""
    rows = {
        "training images": f"{part}{num_train:,}",
        "test images": f"{num_test:,}",
        "networks": "; ".join(f"{_NETWORKS[name]}{width}" for name in networks or (recipe.model,)),
        "epochs": str(recipe.epochs),
        "batch size S": str(recipe.batch_size),
        "kept part q / S": str(recipe.keep),
        "step size": f"{recipe.step_size} {_SCHEDULE_NOTES[recipe.schedule]}; one for all",
        "momentum, weight decay": f"{recipe.momentum}, {recipe.weight_decay}",
        "augmentation": "random crops and flips" if recipe.augment else "none",
        "score": _SCORE_NOTES.get(recipe.score, recipe.score),
        "ordering starts": starts,
        "loss": "cross-entropy, mean over the examples trained on",
    }
    return Table(
        name=f"{recipe.experiment}-settings",
        title=f"{title}: how it is run at size {recipe.size}",
        caption="The same for every method but for what the method is; no step size was tuned for any of them.",
        header=("setting", "value"),
        rows=tuple(rows.items()),
        experiment=recipe.experiment,
        num_labels=2,
    )


_SCHEDULE_NOTES = {
    "1/(1+t/n)": "times 1/(1+t/n), where t counts updates and n those of an epoch",
    "cosine": "falling to 0 over all updates, by half a cosine",
}
_SCORE_NOTES = {
    "logit error": "logit error, the norm of softmax minus one-hot: our reading of what the paper says of large nets",
    "gradient norm": "exact norm of each example's gradient",
}

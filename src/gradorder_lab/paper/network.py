"""What a network is trained on in the paper's experiments, how, and by which of the four methods."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import gradorder as go
from gradorder.scores import Score
from gradorder_lab import data as data_sets
from gradorder_lab.errors import DatasetError
from gradorder_lab.figures import Table
from gradorder_lab.methods import paper_method
from gradorder_lab.models.named import MODELS, started
from gradorder_lab.runs.origin import digest
from gradorder_lab.runs.recipe import Recipe, Rows, Size, Workspace
from gradorder_lab.runs.whole_file import load_checkpoint, save_checkpoint
from gradorder_lab.training.network import NetworkRun, train_one_epoch
from gradorder_lab.training.recipe import Training
from gradorder_lab.training.split import DataSettings

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

    @property
    def training(self) -> Training:
        """The network recipe."""
        measured: dict[str, Any] = {"train": "train", "held_out": "held_out", "test": "test"}
        if not self.held_out:
            del measured["held_out"]
        return Training(
            data=DataSettings(self.data, self.size, self.num_train, self.held_out),
            model=self.model,
            width=self.width,
            method=paper_method(self.method, self.sort, SCORES[self.score], self.keep),
            epochs=self.epochs,
            length=self.epochs,
            batch_size=self.batch_size,
            schedule=self.schedule,
            step_size=self.step_size,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            crop=_CROP if self.augment else None,
            measured=measured,
        )

    def run(self, seed: int, workspace: Workspace | None = None) -> Rows:
        """Train from the last checkpoint on; the random epochs come from those that the family has trained before."""
        workspace = workspace or Workspace()
        run = begin(self, seed, workspace)
        _advance(run, self, seed, workspace, self.epochs)
        return run.rows()

    def contents(self, data: Path | None) -> Mapping[str, str]:
        """Images and labels, and the network as seed 0 starts it."""
        found = _hashes(self.data, self.size, data, self.model, self.width)
        if isinstance(found, DatasetError):
            raise found
        return found

    def checkpoint(self, seed: int, workspace: Workspace, epoch: int | None = None) -> Path:
        """Where its last state is kept, or, as a branch point for others, that after `epoch` epochs."""
        recipe = self.warm_up if self.is_trunk else self
        settings = {"experiment": recipe.experiment, **recipe.settings}
        identity = json.dumps([self.revision, seed, workspace.device, workspace.threads, settings], sort_keys=True)
        name = hashlib.sha256(identity.encode()).hexdigest()[:24]
        directory = workspace.checkpoints or Path()
        return directory / (f"{name}.pt" if epoch is None else f"{name}-{epoch}.pt")


def begin(recipe: NeuralRecipe, seed: int, workspace: Workspace) -> NetworkRun:
    """Where the run stopped, or where it branches off, or its start.

    The epochs before its start epoch are another run's: the random one's.
    """
    run = recipe.training.start(seed, workspace)
    state = _saved(recipe.checkpoint(seed, workspace), workspace)
    if state is None and recipe.start_epoch > 0:
        state = _warmed_up(recipe, seed, workspace)
    if state is not None:
        run.load(state)
    else:
        run.note()
    return run


def _saved(path: Path, workspace: Workspace) -> Mapping[str, Any] | None:
    return None if workspace.checkpoints is None else load_checkpoint(path)


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
        if workspace.checkpoints is not None:
            _save(run, recipe, seed, workspace)


def _save(run: NetworkRun, recipe: NeuralRecipe, seed: int, workspace: Workspace) -> None:
    """The state to go on from, and, of a random run, the states that others branch off from."""
    if recipe.is_trunk and run.next_epoch in recipe.branch_epochs:
        save_checkpoint(run.state(), recipe.checkpoint(seed, workspace, run.next_epoch))
    save_checkpoint(run.state(), recipe.checkpoint(seed, workspace))


@cache
def _hashes(
    data: str, size: Size, directory: Path | None, model: str, width: int | None
) -> Mapping[str, str] | DatasetError:
    """Of the data and of the network as seed 0 starts it, or why the data cannot be had."""
    images = _images_hash(data, size, directory)
    if isinstance(images, DatasetError):
        return images
    shape, num_classes, of_images = images
    network = started(lambda: MODELS[model](num_classes, shape, width), 0)
    called = model if width is None else f"{model}, width {width}"
    return {
        f"{data}, {size}": of_images,
        f"{called}, for {data}": digest(tensor.numpy() for tensor in network.state_dict().values()),
    }


@cache
def _images_hash(data: str, size: Size, directory: Path | None) -> tuple[tuple[int, ...], int, str] | DatasetError:
    """The shape of an image, the number of classes, and a hash; a download is tried once for all recipes that ask."""
    try:
        train, test = data_sets.load(data, data_dir=directory, size=size)
    except DatasetError as error:
        return error
    arrays = (array.numpy() for split in (train, test) for array in (split.images, split.labels))
    return tuple(train.images.shape[1:]), train.num_classes, digest(arrays)


_CROP = 4
"""Pixels by which augmented images are shifted at most."""

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

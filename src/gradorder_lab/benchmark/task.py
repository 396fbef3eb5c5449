"""What is learned: data, network, and how long plain training takes on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch
from torch import nn

from gradorder.losses import Losses
from gradorder_lab import data as data_sets
from gradorder_lab.benchmark import own
from gradorder_lab.benchmark.measure import ACCURACY, LOSS, Measure
from gradorder_lab.benchmark.own_file import ARRAYS, read_file
from gradorder_lab.data.examples import Examples, Subset
from gradorder_lab.data.patch_features import cifar10_features
from gradorder_lab.data.snippets import snippets
from gradorder_lab.data.sst2 import sst2
from gradorder_lab.data.terrain import terrain
from gradorder_lab.data.tiny_shakespeare import tiny_shakespeare
from gradorder_lab.errors import LabError
from gradorder_lab.models.named import MODELS, started

TABLES: Mapping[str, Callable[[Path | None], tuple[Examples, Examples, int]]] = {
    "terrain": lambda _: terrain(),
    "snippets": lambda _: snippets(),
    "sst2": sst2,
    "cifar10-features": cifar10_features,
    "tinyshakespeare": tiny_shakespeare,
}
"""What is no data set of images: training and test set and the number of classes, read from this directory or made."""

TEXTS = ("tinyshakespeare",)
"""Data sets of which an example has many targets."""

SHIPPED = {f"{name}-mini": name for name, source in data_sets.SOURCES.items() if source.is_embedded}
"""What comes along with the package: some thousand examples of a data set of images."""

DATA_NAMES = (*data_sets.SOURCES, *SHIPPED, *TABLES)

_DIFFICULT = ("cifar", "sst2", "snippets", "tinyshakespeare")
_NO_CLASSES = "for targets that are no classes name a function with --losses"
_HELD_OUT = 0.1
_WIDTHS = {"resnet20": 8, "resnet18": 8}  # what two cores can train


@dataclass(frozen=True)
class Task:
    """A learning task and the length of its plain training.

    Args:
        name: what it is called in tables.
        data: one of `DATA_NAMES`, or an .npz file with arrays x_train, y_train, x_test, y_test: its path, or the name
            that `own.content` gives it.
        model: one of `MODELS`, or "module:function", a function (classes, inputs) -> module, `inputs` the shape of one
            example.
        epochs: of plain training.
        batch_size: of every method.
        step_sizes: what the search may choose from, for every method.
        num_train: class-balanced part of the training images; all for None.
        momentum: of SGD.
        weight_decay: of SGD.
        wrong_labels: the share of training labels that are replaced.
        rarest: the share of its training examples that the last class is left with; the others in between.
        flips: whether training images are mirrored, half of the time.
        losses: "module:function", a function (model, batch) -> (B,); cross-entropy for None.
        variant: what tells it apart from a task that is otherwise the same.
        seeds: how often the benchmark runs each method: more where a run is cheap.
    """

    name: str
    data: str
    model: str
    epochs: int
    batch_size: int = 128
    step_sizes: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2)
    num_train: int | None = None
    momentum: float = 0.9
    weight_decay: float = 0.0
    wrong_labels: float = 0.0
    rarest: float = 1.0
    flips: bool = False
    losses: str | None = None
    variant: str = ""
    seeds: int = 10

    def __post_init__(self) -> None:
        if not self.has_classes and (self.wrong_labels > 0 or self.rarest < 1):
            raise ValueError(
                "wrong_labels and rarest must be 0 and 1 where no example has a class, "
                f"got {self.wrong_labels} and {self.rarest}"
            )

    @property
    def has_classes(self) -> bool:
        """Whether every example is of one class: what balanced batches, and methods that look at logits, ask for."""
        return self.losses is None and self.data not in TEXTS

    @property
    def margin(self) -> float:
        """What still counts as plain training's: 1% of the loss; 0.5 points of accuracy on CIFAR and text, else 0.1."""
        if self.measure == LOSS:
            return 1.0
        return 0.5 if self.data.startswith(_DIFFICULT) else 0.1

    @property
    def measure(self) -> Measure:
        """What runs are judged by: only cross-entropy tells right from wrong."""
        return ACCURACY if self.losses is None else LOSS


@dataclass(frozen=True, eq=False)
class Split:
    """What is trained on and what is measured on; targets that are no classes have `num_classes` numbers each."""

    train: Examples
    test: Examples
    num_classes: int


def load_split(task: Task, directory: Path | None, *, validates: bool, seed: int = 0) -> Split:
    """The task's data; with `validates` the measured part is held out of the training set, the test set unseen.

    Wrong labels and rare classes are those of this seed, the same for every method.
    """
    whole = _load(task.data, task.num_train, directory, validates)
    if task.has_classes:
        _check_classes(_called(task.data, directory), whole)
    if task.rarest == 1 and task.wrong_labels == 0:
        return whole
    generator = torch.Generator().manual_seed(seed)
    part = Subset.of(whole.train)
    if task.rarest < 1:
        part = part.with_rare_classes(task.rarest, whole.num_classes, generator)
    if task.wrong_labels > 0:
        part = part.with_wrong_labels(task.wrong_labels, whole.num_classes, generator)
    return replace(whole, train=part)


def _check_classes(data: str, split: Split) -> None:
    for name, labelled in (("train", split.train), ("test", split.test)):
        if wrong := _no_classes(labelled.labels):
            raise LabError(f"{data}: y_{name} {wrong}")
    if split.num_classes > len(split.train):
        raise LabError(
            f"{data}: y_train and y_test must hold classes 0, 1, 2, ..., fewer than examples, got "
            f"{split.num_classes - 1} with {len(split.train)} examples; {_NO_CLASSES}"
        )
    if len(split.train.labels.unique()) == 1:
        raise LabError(f"{data}: y_train must hold two classes at least, got {int(split.train.labels[0])} only")


def _called(data: str, directory: Path | None) -> str:
    """What a user calls the data: rows name a file by its content."""
    return data if data in DATA_NAMES else str(own.file_of(data, directory))


@cache
def _load(data: str, num_train: int | None, directory: Path | None, validates: bool) -> Split:
    train, test, num_classes = _examples(data, num_train, directory)
    if not validates:
        return Split(train, test, num_classes)
    # before anything is spoilt: what chooses a step size is as the test set is
    held_out = round(_HELD_OUT * len(train))
    if held_out == 0:
        raise LabError(
            f"{_called(data, directory)}: x_train must hold enough examples to choose a step size by a tenth of them, "
            f"got {len(train)}; with a single --step-size none is chosen"
        )
    part, measured = Subset.of(train).without(held_out)
    return Split(part, measured, num_classes)


def _examples(data: str, num_train: int | None, directory: Path | None) -> tuple[Examples, Examples, int]:
    if data in data_sets.SOURCES:
        train, test = data_sets.load(data, data_dir=directory, size="cpu")
        return train if num_train is None else train.subset(num_train), test, train.num_classes
    if data in SHIPPED:
        train, test = data_sets.load(SHIPPED[data], data_dir=directory, size="mini")
        return train, test, train.num_classes
    return TABLES[data](directory) if data in TABLES else _from_file(own.file_of(data, directory))


def _from_file(path: Path) -> tuple[Examples, Examples, int]:
    """The user's own arrays."""
    if not path.is_file():
        raise LabError(
            f"--data must be one of {', '.join(DATA_NAMES)}, or an .npz file with numeric arrays {', '.join(ARRAYS)}, "
            f"got {path}, and there is no such file"
        )
    train, test = read_file(path)
    return train, test, _num_outputs(train.labels, test.labels)


def _num_outputs(*labels: torch.Tensor) -> int:
    """The number of classes, or of numbers per example where these are no classes."""
    if any(_no_classes(some) for some in labels):
        return max(1, labels[0][0].numel())
    return 1 + max(int(some.max()) for some in labels)


def _no_classes(labels: torch.Tensor) -> str | None:
    """Why these are no classes; None where they are."""
    if labels.ndim != 1 or labels.is_floating_point():
        return (
            "must hold one whole number per example, as y.ravel().astype(int) gives, got shape "
            f"{tuple(labels.shape)} of {labels.dtype}; {_NO_CLASSES}"
        )
    smallest = int(labels.min())
    return f"must hold classes 0, 1, 2, ..., got {smallest}; {_NO_CLASSES}" if smallest < 0 else None


def own_losses(task: Task) -> Losses | None:
    """The user's function, None for cross-entropy."""
    if task.losses is None:
        return None
    found: Losses = own.imported(own.unmarked(task.losses), "--losses")
    return found


def make_model(name: str, split: Split, seed: int) -> nn.Module:
    """The network with the start of this seed, the same for every method."""
    inputs, _ = split.train.batch(torch.zeros(1, dtype=torch.int64))
    build, given = _builder(name), (split.num_classes, tuple(inputs.shape[1:]))
    return started(lambda: build(*given), seed)


def _builder(name: str) -> Callable[[int, tuple[int, ...]], nn.Module]:
    if name in MODELS:
        # Convolutions are faster with the channels last; a layout changes rounding, never what is computed.
        return lambda classes, shape: MODELS[name](classes, shape, _WIDTHS.get(name)).to(
            memory_format=torch.channels_last  # type: ignore[call-overload]
        )
    if ":" not in name:
        raise LabError(
            f"--model must be one of {', '.join(MODELS)}, or module:function with a function (classes, inputs) -> "
            f"module, got {name!r}"
        )
    builder: Callable[[int, tuple[int, ...]], nn.Module] = own.imported(own.unmarked(name), "--model")
    return builder

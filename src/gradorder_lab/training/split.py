"""What a network is trained and measured on: a data set by name, and the one hold-out of all experiments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import torch

from gradorder_lab import data as data_sets
from gradorder_lab.data.california_housing import california_housing
from gradorder_lab.data.examples import Examples, LabelledTensors, PretrainedFeatures, Subset
from gradorder_lab.data.libsvm import a9a, w8a
from gradorder_lab.data.scikit_learn import breast_cancer, diabetes, digits
from gradorder_lab.data.sst2 import sst2
from gradorder_lab.data.terrain import terrain
from gradorder_lab.errors import LabError
from gradorder_lab.models.minilm import minilm_features
from gradorder_lab.models.pretrained_resnet import cifar100_features
from gradorder_lab.runs.recipe import Size
from gradorder_lab.training import own
from gradorder_lab.training.own_file import ARRAYS, read_file

TABLES: Mapping[str, Callable[[Path | None], tuple[Examples, Examples, int]]] = {
    "terrain": lambda _: terrain(),
    "sst2": sst2,
    "a9a": a9a,
    "w8a": w8a,
    "california-housing": california_housing,
    "digits": digits,
    "breast-cancer": breast_cancer,
    "diabetes": diabetes,
    "banking77": partial(minilm_features, "banking77"),
    "trec": partial(minilm_features, "trec"),
    "clinc150": partial(minilm_features, "clinc150"),
    "cifar100-features": cifar100_features,
}
"""Data sets that are tables: directory -> training set, test set, number of classes, or of targets in a regression."""

SHIPPED = {f"{name}-mini": name for name, source in data_sets.SOURCES.items() if source.is_embedded}
"""The part of a data set of images that is shipped with the package."""

DATA_NAMES = (*data_sets.SOURCES, *SHIPPED, *TABLES)

HELD_OUT = 0.1
"""The part of the training set that chooses a learning rate."""

_NO_CLASSES = "for targets that are no classes name a function with --losses"


@dataclass(frozen=True)
class DataSettings:
    """A data set and how it is split and spoilt.

    Args:
        name: one of `DATA_NAMES`, or an .npz file with arrays x_train, y_train, x_test, y_test: its path, or the name
            that `own.content` gives it.
        size: which version of a data set of images is read.
        num_train: class-balanced part of the training images; all of them for None.
        held_out: the part of the training set that is held out.
        wrong_labels: the share of training labels that are replaced.
        rarest: the share of its training examples that the last class keeps; the others in between.
        has_classes: whether every target is one class.
    """

    name: str
    size: Size = "cpu"
    num_train: int | None = None
    held_out: float = 0.0
    wrong_labels: float = 0.0
    rarest: float = 1.0
    has_classes: bool = True


@dataclass(frozen=True, eq=False)
class Split:
    """The parts of a data set; targets that are no classes have `num_classes` numbers each.

    Of a pretrained network that is trained further, `pretrained` holds the weights to start from, by name.
    """

    train: Examples
    held_out: Examples | None
    test: Examples
    num_classes: int
    pretrained: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one example."""
        inputs, _ = self.train.batch(torch.zeros(1, dtype=torch.int64))
        return tuple(inputs.shape[1:])


def load_split(data: DataSettings, directory: Path | None, *, seed: int = 0, device: str = "cpu") -> Split:
    """Load the data; wrong labels and rare classes are those of this seed, the same for every method."""
    whole = _load(replace(data, wrong_labels=0.0, rarest=1.0), directory, device)
    if data.rarest == 1 and data.wrong_labels == 0:
        return whole
    generator = torch.Generator().manual_seed(seed)
    part = Subset.of(whole.train)
    if data.rarest < 1:
        part = part.with_rare_classes(data.rarest, whole.num_classes, generator)
    if data.wrong_labels > 0:
        part = part.with_wrong_labels(data.wrong_labels, whole.num_classes, generator)
    return replace(whole, train=part)


@cache
def _load(data: DataSettings, directory: Path | None, device: str) -> Split:
    """Read once per process. The held-out part is cut off before labels are spoilt: it is as the test set is."""
    train, test, num_classes = _examples(data, directory)
    pretrained = train.pretrained if isinstance(train, PretrainedFeatures) else {}
    split = Split(_on(device, train), None, _on(device, test), num_classes, pretrained)
    if data.has_classes:
        _check_classes(_called(data.name, directory), split)
    if data.held_out == 0:
        return split
    num_held_out = round(data.held_out * len(train))
    if num_held_out == 0:
        raise LabError(
            f"{_called(data.name, directory)}: x_train must hold enough examples to choose a step size by a tenth of "
            f"them, got {len(train)}; with a single --step-size none is chosen"
        )
    part, held_out = Subset.of(split.train).without(num_held_out)
    return replace(split, train=part, held_out=held_out)


def _examples(data: DataSettings, directory: Path | None) -> tuple[Examples, Examples, int]:
    if data.name in data_sets.SOURCES or data.name in SHIPPED:
        name = SHIPPED.get(data.name, data.name)
        size: Size = "mini" if data.name in SHIPPED else data.size
        train, test = data_sets.load(name, data_dir=directory, size=size)
        return train if data.num_train is None else train.subset(data.num_train), test, train.num_classes
    if data.name in TABLES:
        if data.num_train is not None:
            raise LabError(f"num_train must be None for {data.name}, got {data.num_train}: only images are cut to it")
        return TABLES[data.name](directory)
    path = own.file_of(data.name, directory)
    if not path.is_file():
        raise LabError(
            f"--data must be one of {', '.join(DATA_NAMES)}, or an .npz file with numeric arrays {', '.join(ARRAYS)}, "
            f"got {path}, and there is no such file"
        )
    own_train, own_test = read_file(path)
    return own_train, own_test, _num_outputs(own_train.labels, own_test.labels)


def _on(device: str, examples: Examples) -> Examples:
    """The same examples on this device."""
    if device == "cpu":
        return examples
    if isinstance(examples, data_sets.ImageDataset):
        return examples.to(device)
    if isinstance(examples, LabelledTensors):
        return LabelledTensors(examples.inputs.to(device), examples.labels.to(device))
    raise LabError(f"--device must be cpu for these examples, got {device!r}: they cannot be moved")


def _called(data: str, directory: Path | None) -> str:
    """What a user calls the data: rows name a file by its content."""
    return data if data in DATA_NAMES else str(own.file_of(data, directory))


def _check_classes(name: str, split: Split) -> None:
    for part, examples in (("train", split.train), ("test", split.test)):
        if wrong := _no_classes(examples.labels):
            raise LabError(f"{name}: y_{part} {wrong}")
    if split.num_classes > len(split.train):
        raise LabError(
            f"{name}: y_train and y_test must hold classes 0, 1, 2, ..., fewer than examples, got "
            f"{split.num_classes - 1} with {len(split.train)} examples; {_NO_CLASSES}"
        )
    if len(split.train.labels.unique()) == 1:
        raise LabError(f"{name}: y_train must hold two classes at least, got {int(split.train.labels[0])} only")


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

"""A data set of images by name: from the user's files, from the package, or from the network."""

import os
from importlib import resources
from pathlib import Path

import numpy as np
import torch

from gradorder_lab.data.download import DownloadError, cache_dir, fetch
from gradorder_lab.data.files import DATA_VARIABLE, data_directory
from gradorder_lab.data.images import ImageDataset
from gradorder_lab.data.original_files import LabelledImages, TrainTest
from gradorder_lab.data.sources import SOURCES, Source
from gradorder_lab.errors import DatasetError, DatasetNotFoundError
from gradorder_lab.runs.recipe import SIZES, Size


def load(
    name: str, *, data_dir: str | os.PathLike[str] | None = None, size: Size = "paper", download: bool = True
) -> tuple[ImageDataset, ImageDataset]:
    """Train and test set: "mnist", "fashion-mnist", "cifar10" or "cifar100".

    Size "mini" of the first two is shipped with the package. Everything else is looked for in `data_dir` (else in
    $GRADORDER_DATA), then in the cache of earlier downloads, and is downloaded last.

    Args:
        name: of the data set.
        data_dir: holds the original files: the four .gz files of MNIST or Fashion-MNIST in a folder named like the
            data set, or as torchvision lays them out; the binary version of a CIFAR, as its archive or unpacked.
        size: "paper" is the complete data set, and refuses to be less; "cpu" is all that the files hold; "mini" is
            the first few of each class.
        download: whether the network may be used.

    Raises:
        DatasetNotFoundError: the files are nowhere; says which ones to put where.
        DatasetFileError: a file is missing or damaged.
        DatasetError: `data_dir` is not a directory, or holds too little for this size.
        ValueError: an unknown name or size.

    Example:
        >>> train, test = load("mnist", size="mini", data_dir=None, download=False)
        >>> train
        ImageDataset(5000 images of 1 x 28 x 28, 10 classes, cpu)
    """
    if name not in SOURCES:
        raise ValueError(f"name must be one of {', '.join(SOURCES)}, got {name!r}")
    if size not in SIZES:
        raise ValueError(f"size must be one of {', '.join(SIZES)}, got {size!r}")
    source, root = SOURCES[name], data_directory(data_dir)
    splits = _shipped(name) if size == "mini" and source.is_embedded else _original(source, root, download)
    try:
        train, test = (ImageDataset(*split, source.num_classes, source.mean, source.std) for split in splits)
        if size == "mini":
            return train.subset(source.num_mini_train), test.subset(source.num_mini_test)
    except ValueError as error:
        raise DatasetError(f"{source.title}, size {size}: {error}") from error
    if size == "paper" and (len(train), len(test)) != (source.num_train, source.num_test):
        raise DatasetError(
            f"{source.title}, size paper: the complete data set has {source.num_train} + {source.num_test} examples, "
            f"the files hold {len(train)} + {len(test)}; size cpu takes what there is"
        )
    return train, test


def _shipped(name: str) -> TrainTest:
    """The part that comes with the package (sources and licences: lab/NOTICE)."""
    file = resources.files("gradorder_lab.data").joinpath("shipped", f"{name}.npz")
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
        parts = [(torch.from_numpy(arrays[f"x_{part}"]), arrays[f"y_{part}"]) for part in ("train", "test")]
    return TrainTest(*(LabelledImages(x.unsqueeze(1), torch.from_numpy(y.astype(np.int64))) for x, y in parts))


def _original(source: Source, root: Path | None, download: bool) -> TrainTest:
    found = None if root is None else source.files.read(root)
    if found is not None:
        return found
    try:
        folder = cache_dir() / source.name
        for remote in source.remotes if download else ():
            fetch(remote, folder)
    except DownloadError as error:
        raise _not_found(source, root, f"it could not be downloaded ({error})") from error
    # The folder is named like the data set, so its parent is a data directory like any other.
    found = source.files.read(folder.parent)
    if found is None:
        raise _not_found(source, root, "downloading was not allowed")
    return found


def _not_found(source: Source, root: Path | None, reason: str) -> DatasetNotFoundError:
    searched = f"not in {root}" if root is not None else f"neither data_dir (--data) nor {DATA_VARIABLE} is set"
    parent = Path("DIR") if root is None else root
    lines = [f"{source.title} was not found: {searched}; {reason}.", f"Put these files into {parent / source.name}:"]
    lines += [f"  {remote.name}    from {' or '.join(remote.urls)}" for remote in source.remotes]
    lines.append(f"and pass --data {parent}, or set {DATA_VARIABLE}={parent}.")
    return DatasetNotFoundError("\n".join(lines))

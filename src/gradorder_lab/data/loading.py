"""A data set by name: from the user's files, from the package, or from the network."""

import os
from pathlib import Path

from gradorder_lab.data import embedded
from gradorder_lab.data.download import DownloadError, cache_dir, fetch
from gradorder_lab.data.files import DATA_VARIABLE, TrainTest, data_directory
from gradorder_lab.data.images import ImageDataset
from gradorder_lab.data.sources import SOURCES, Source
from gradorder_lab.errors import DatasetError, DatasetNotFoundError
from gradorder_lab.runs.recipe import SIZES, Size


def load(
    name: str, *, data_dir: str | os.PathLike[str] | None = None, size: Size = "paper", download: bool = True
) -> tuple[ImageDataset, ImageDataset]:
    """Train and test set: "mnist", "fashion-mnist", "cifar10" or "cifar100".

    The files are looked for in `data_dir` (else in $GRADORDER_DATA), then, for size "mini", in the package, then in
    the cache of earlier downloads, and are downloaded at last.

    Args:
        name: of the data set.
        data_dir: holds the original files, the CIFARs in their binary version: directly, in a folder named like the
            data set, or as torchvision lays them out.
        size: "paper" is the complete data set, and refuses to be less; "cpu" is all that the files hold; "mini" is
            the first few of each class, the same examples wherever they are read from.
        download: whether the network may be used.

    Raises:
        DatasetNotFoundError: the files are nowhere; says which ones to put where.
        DatasetFileError: a file is truncated, corrupt or another one than its name says.
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
    source = SOURCES[name]
    splits = _splits(source, data_directory(data_dir), size, download)
    train, test = (ImageDataset(*split, source.class_names, source.mean, source.std) for split in splits)
    if size == "mini":
        return _mini(source, train, source.num_mini_train), _mini(source, test, source.num_mini_test)
    if size == "paper":
        _check_complete(source, train, test)
    return train, test


def _splits(source: Source, root: Path | None, size: Size, download: bool) -> TrainTest:
    found = None if root is None else source.files.read(root)
    if found is not None:
        return found
    if size == "mini" and source.is_embedded:
        return embedded.read_embedded(source)
    return _downloaded(source, root, download)


def _downloaded(source: Source, root: Path | None, download: bool) -> TrainTest:
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
    if source.is_embedded:
        lines.append('Size "mini" needs no files.')
    return DatasetNotFoundError("\n".join(lines))


def _mini(source: Source, dataset: ImageDataset, num_examples: int) -> ImageDataset:
    try:
        return dataset.subset(num_examples)
    except ValueError as error:
        raise DatasetError(f'{source.title}, size "mini": {error}') from error


def _check_complete(source: Source, train: ImageDataset, test: ImageDataset) -> None:
    if (len(train), len(test)) != (source.num_train, source.num_test):
        raise DatasetError(
            f'{source.title}, size "paper": the complete data set has {source.num_train} + {source.num_test} examples, '
            f'the files hold {len(train)} + {len(test)}; size "cpu" takes what there is'
        )

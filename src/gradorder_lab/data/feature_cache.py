"""Outputs of frozen layers, computed once and kept beside the data."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from gradorder_lab.data.files import data_directory
from gradorder_lab.errors import DatasetFileError
from gradorder_lab.runs.whole_file import whole_file


def cached_features(
    directory: Path | None, name: str, made_from: tuple[object, ...], compute: Callable[[], torch.Tensor]
) -> torch.Tensor:
    """Return what `compute` returns, from DIR/cache if it is there.

    Args:
        directory: the data directory.
        name: the file's name begins with it.
        made_from: everything that the features depend on, with an exact `repr`; its hash is part of the file's name.
        compute: gives the features.

    Raises:
        DatasetFileError: the file cannot be read or written.
    """
    root = data_directory(directory)
    if root is None:
        return compute()
    path = root / "cache" / f"{name}-{hashlib.sha256(repr(made_from).encode()).hexdigest()[:16]}.npy"
    try:
        if not path.exists():
            with whole_file(path) as unfinished, unfinished.open("wb") as file:
                np.save(file, compute().numpy(), allow_pickle=False)
        return torch.from_numpy(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise DatasetFileError(path, f"cannot be kept or read: {error}. Remove it to compute it again") from error


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()

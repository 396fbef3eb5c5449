"""An .npz file of the user's own: read, and refused in one line where something in it would spoil the comparison."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from gradorder_lab.data.examples import LabelledTensors
from gradorder_lab.errors import LabError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")


def read_file(path: Path) -> tuple[LabelledTensors, LabelledTensors]:
    """Training and test set.

    Raises:
        LabError: an array is missing, holds no numbers or some that are not finite, or does not fit the others.
    """
    try:
        # opened here: numpy leaves a file open that is no zip file
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            if missing := [name for name in ARRAYS if name not in file]:
                raise LabError(f"{path} must hold arrays {', '.join(ARRAYS)}, got no {missing[0]}")
            arrays = {name: file[name] for name in ARRAYS}
    except (OSError, ValueError, TypeError, AttributeError, EOFError, BadZipFile, zlib.error) as error:
        raise LabError(f"{path} must be an .npz file with numeric arrays {', '.join(ARRAYS)}: {error}") from error
    found = {name: _numbers(path, name, array) for name, array in arrays.items()}
    for split in ("train", "test"):
        _check_rows(path, split, found)
    for kind in ("x", "y"):
        _check_alike(path, kind, found)
    train, test = (LabelledTensors(found[f"x_{split}"], found[f"y_{split}"]) for split in ("train", "test"))
    return train, test


def _numbers(path: Path, name: str, array: NDArray[np.generic]) -> torch.Tensor:
    """Finite ones: floats as float32, targets that are whole numbers as int64."""
    if array.dtype.kind not in "biuf":
        raise LabError(f"{path}: {name} must hold numbers, got {array.dtype}")
    if array.dtype.kind != "f":
        return torch.from_numpy(array.astype(np.int64) if name.startswith("y") else array)
    with np.errstate(over="ignore"):  # is said below
        values = torch.from_numpy(array.astype(np.float32))
    if not values.isfinite().all():
        place = tuple((~values.isfinite()).nonzero()[0].tolist())
        raise LabError(f"{path}: {name} must be finite, also in float32, got {array[place]} at {list(place)}")
    return values


def _check_rows(path: Path, split: str, found: Mapping[str, torch.Tensor]) -> None:
    inputs, targets = found[f"x_{split}"], found[f"y_{split}"]
    if inputs.ndim == 0 or targets.ndim == 0 or len(inputs) != len(targets) or len(targets) == 0:
        raise LabError(
            f"{path}: y_{split} must have one row per row of x_{split}, and at least one, got shapes "
            f"{tuple(targets.shape)} and {tuple(inputs.shape)}"
        )


def _check_alike(path: Path, kind: str, found: Mapping[str, torch.Tensor]) -> None:
    train, test = found[f"{kind}_train"], found[f"{kind}_test"]
    if (train.shape[1:], train.dtype) != (test.shape[1:], test.dtype):
        raise LabError(
            f"{path}: a row of {kind}_test must be like one of {kind}_train, shape {tuple(train.shape[1:])} of "
            f"{train.dtype}, got {tuple(test.shape[1:])} of {test.dtype}"
        )

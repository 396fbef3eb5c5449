"""A training run on disk after each epoch: written aside and moved into place, so that a kill leaves the last one."""

import os
from pathlib import Path
from typing import Any

import torch

from gradorder_lab.errors import LabError
from gradorder_lab.runs.whole_file import whole_file

CheckpointState = dict[str, Any]
"""Tensors, numbers and containers of them: what loads with weights_only=True."""


def save_checkpoint(state: CheckpointState, path: Path) -> None:
    """Replace the checkpoint at `path`, all of it or nothing."""
    try:
        with whole_file(path) as unfinished, unfinished.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise LabError(f"the checkpoint {path} cannot be written: {error.strerror}") from error


def load_checkpoint(path: Path) -> CheckpointState | None:
    """The checkpoint at `path`, on the CPU; None where there is none."""
    if not path.exists():
        return None
    try:
        state: CheckpointState = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise LabError(f"the checkpoint {path} is damaged: remove it to start that run again") from error
    return state

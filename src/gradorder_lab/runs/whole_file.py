"""Files that are there whole or not at all, whenever the process is killed: texts, and states of a training run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from gradorder_lab.errors import LabError

CheckpointState = dict[str, Any]
"""Tensors, numbers and containers of them: what loads with weights_only=True."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write what then stands at `path`; an error leaves what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> Path:
    """The file with this text."""
    with whole_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path


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

"""States of selections: plain numbers and tensors, checked before anything of them is used."""

from collections.abc import Mapping
from typing import Any

import torch

from gradorder import checks


def entry(state: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - a number or a tensor
    """The entry of this name."""
    if name not in state:
        raise ValueError(f"state must be what state_dict() returned, but it has no {name!r}")
    return state[name]


def count(state: Mapping[str, Any], name: str) -> int:
    """The entry of this name, a number >= 0."""
    return checks.integer(f"{name} of state", entry(state, name), minimum=0)


def number(state: Mapping[str, Any], name: str) -> float:
    """The entry of this name, a finite number >= 0."""
    value = entry(state, name)
    if not checks.is_number(value) or not 0 <= value < float("inf"):
        raise ValueError(f"{name} of state must be a finite number >= 0, got {value!r}")
    return float(value)


def finite_row(state: Mapping[str, Any], name: str, *, longest: int) -> torch.Tensor:
    """A copy of the entry of this name, a tensor of at most `longest` finite numbers."""
    values = entry(state, name)
    if not isinstance(values, torch.Tensor) or values.ndim != 1 or len(values) > longest:
        raise ValueError(f"{name} of state must be a tensor of at most {longest} numbers, got {values!r}")
    if not bool(torch.isfinite(values).all()):
        raise ValueError(f"{name} of state must be finite, got {values!r}")
    return values.detach().clone()

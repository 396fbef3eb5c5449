"""A batch: tensors with one row per example, in tuples, lists, dicts, or any nesting of them.

Numpy arrays, lists of plain values and tuples of strings (as torch's default collate returns them) hold rows, too.
Single numbers, strings, None, tensors without dimensions and tuples of numbers, such as `image_size=(224, 112)`, belong
to the batch as a whole and stay as they are.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

Batch = Any
"""Anything that the user's loader returns."""

_PLAIN = str | bytes | int | float | complex | None


def num_examples(batch: Batch) -> int:
    """The number of examples: the one length that all rows of the batch share."""
    lengths = {len(rows) for rows in _leaves(batch) if _is_rows(rows)}
    if not lengths:
        raise ValueError(f"batch must hold a tensor with one row per example, got {_describe(batch)}")
    if len(lengths) > 1:
        raise ValueError(
            f"batch must have the same number of rows in every part, got {sorted(lengths)} in {_describe(batch)}"
        )
    return lengths.pop()


def take(batch: Batch, indices: torch.Tensor) -> Batch:
    """The examples at `indices` of every part of the batch, in that order, in the same structure."""

    def rows(leaf: Any) -> Any:  # noqa: ANN401 - a leaf is anything
        if not _is_rows(leaf):
            return leaf
        if isinstance(leaf, torch.Tensor):
            return leaf.index_select(0, indices.to(leaf.device))
        if isinstance(leaf, np.ndarray):
            return leaf[indices.cpu().numpy()]
        return type(leaf)(leaf[i] for i in indices.tolist())

    return _map(rows, batch)


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The same batch with every tensor on `device`."""
    return map_tensors(lambda tensor: tensor.to(device, non_blocking=True), batch)


def map_tensors(function: Callable[[torch.Tensor], Any], batch: Batch) -> Batch:
    """The same structure with `function` applied to every tensor."""
    return _map(lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) else leaf, batch)


def row_tensors(batch: Batch) -> list[torch.Tensor]:
    """Every tensor with one row per example, in the order in which `with_row_tensors` takes them back."""
    return [leaf for leaf in _leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.ndim > 0]


def has_only_tensor_rows(batch: Batch) -> bool:
    """True if examples differ in the row tensors only."""
    return all(isinstance(leaf, torch.Tensor) for leaf in _leaves(batch) if _is_rows(leaf))


def with_row_tensors(batch: Batch, tensors: Sequence[torch.Tensor]) -> Batch:
    """The same structure with its row tensors replaced by `tensors`."""
    following = iter(tensors)
    return map_tensors(lambda tensor: next(following) if tensor.ndim > 0 else tensor, batch)


def _is_rows(leaf: object) -> bool:
    if isinstance(leaf, torch.Tensor | np.ndarray):
        return leaf.ndim > 0
    if isinstance(leaf, tuple):
        return not hasattr(leaf, "_fields") and any(isinstance(value, str | bytes | Mapping) for value in leaf)
    return isinstance(leaf, list)


def _is_plain_list(batch: Batch) -> bool:
    """True for a list or tuple of plain values, or of dicts of plain values."""
    return isinstance(batch, list | tuple) and len(batch) > 0 and all(_is_plain(value) for value in batch)


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_plain(inner) for inner in value.values())
    return isinstance(value, _PLAIN)


def _leaves(batch: Batch) -> list[Any]:
    found: list[Any] = []
    _map(found.append, batch)
    return found


def _map(function: Callable[[Any], Any], batch: Batch) -> Batch:
    """`function` applied to every leaf; leaves of unknown types are refused, since their rows are not known."""
    if isinstance(batch, torch.Tensor | np.ndarray | _PLAIN) or _is_plain_list(batch):
        return function(batch)
    if isinstance(batch, Mapping):
        mapped = {key: _map(function, value) for key, value in batch.items()}
        if isinstance(batch, defaultdict):
            return type(batch)(batch.default_factory, mapped)
        return mapped if type(batch) is dict else type(batch)(mapped)  # type: ignore[call-arg]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_map(function, value) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(_map(function, value) for value in batch)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        names = [field.name for field in dataclasses.fields(batch)]
        return dataclasses.replace(batch, **{n: _map(function, getattr(batch, n)) for n in names})
    raise TypeError(
        "batch must be made of tensors, arrays, tuples, lists, dicts, dataclasses and plain values, "
        f"got {type(batch).__name__}"
    )


def _describe(batch: Batch) -> str:
    """The batch with shapes in place of tensors, for messages."""
    if isinstance(batch, torch.Tensor | np.ndarray):
        return f"{type(batch).__name__}{tuple(batch.shape)}"
    if isinstance(batch, Mapping):
        return "{" + ", ".join(f"{key!r}: {_describe(value)}" for key, value in batch.items()) + "}"
    if isinstance(batch, list | tuple) and not _is_plain_list(batch):
        return "(" + ", ".join(_describe(value) for value in batch) + ")"
    return type(batch).__name__

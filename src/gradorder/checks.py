"""Checks of arguments: each one returns the value, or raises an error that names the argument, rule and value."""

import math
import operator
from collections.abc import Mapping, Sequence, Sized
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
import torch
from torch.utils.data import IterableDataset

from gradorder.errors import IterableDatasetError, NonFiniteScoresError

_SMALL = 2048
"""The size up to which a dot product runs on one thread; larger than most batches."""


def integer(name: str, value: object, *, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`."""
    rule = "a positive integer" if minimum == 1 else f"an integer >= {minimum}"
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be {rule}, got {value!r}")
    return operator.index(value)


def fraction(name: str, value: object) -> float:
    """Return `value` as a float in (0, 1]."""
    if not is_number(value) or not 0 < value <= 1:
        raise ValueError(f"{name} must be in (0, 1], got {value!r}")
    return float(value)


ROUNDING = 2.0**-50
"""Products this close to an integer count as that integer: in floating point, 0.07 * 100 is slightly more than 7.

The fraction and the product each have a relative rounding error of at most 2^-53. The tolerance is larger, to allow for
a fraction that was itself computed, for example 0.1 + 0.2.
"""


def part_of(fraction: float, num: int) -> int:
    """Return the number of examples in a fraction of `num` examples: ceil(fraction * num), at least 1.

    Example:
        >>> part_of(0.07, 100), part_of(0.55, 100), part_of(0.5, 3), part_of(0.001, 3)
        (7, 55, 2, 1)
    """
    return max(1, math.ceil(fraction * num * (1 - ROUNDING)))


def parts_of(fraction: float, counts: Sequence[int]) -> list[int]:
    """Return `part_of` for each of many counts; an empty class stays empty."""
    sizes = np.asarray(counts)
    parts: list[int] = (
        np.where(sizes > 0, np.maximum(1, np.ceil(fraction * sizes * (1 - ROUNDING))), 0).astype(int).tolist()
    )
    return parts


def positive(name: str, value: object) -> float:
    """Return `value` as a positive finite float."""
    if not is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    return float(value)


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a real number. Booleans do not count as numbers."""
    return isinstance(value, Real) and not isinstance(value, bool)


def num_examples_of(name: str, dataset_or_length: object) -> int:
    """Return the number of examples of a map-style dataset, or the number itself."""
    if isinstance(dataset_or_length, Integral):
        return integer(name, dataset_or_length, minimum=1)
    return map_style_length(name, dataset_or_length)


def map_style_length(name: str, dataset: object) -> int:
    """Return the length of a map-style dataset, which must hold at least one example."""
    kind = type(dataset).__name__
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise IterableDatasetError(
            f"{name} must be map-style (with __getitem__ and __len__), got {kind}. "
            "Examples of an iterable-style dataset cannot be put in an order"
        )
    if isinstance(dataset, Mapping | str | bytes):
        raise ValueError(f"{name} must be a dataset or a list of examples, got a {kind}")  # noqa: TRY004 - as the others
    if _are_columns(dataset):
        raise ValueError(
            f"{name} must hold one item per example, got a {kind} of {len(dataset)} tensors with {len(dataset[0])} "
            "rows each. Wrap them in a TensorDataset"
        )
    if not isinstance(dataset, Sized):
        raise IterableDatasetError(f"{name} must have a length (__len__), got {kind} without one")
    if len(dataset) == 0:
        raise ValueError(f"{name} must hold at least one example, got an empty {kind}")
    return len(dataset)


def _are_columns(dataset: object) -> TypeGuard[Sequence[Any]]:
    """True if this is a tuple of columns such as `(X, y)`, rather than a list of examples."""
    if not isinstance(dataset, tuple | list) or len(dataset) < 2:  # noqa: PLR2004 - at least two columns
        return False
    kinds = torch.Tensor | np.ndarray
    if not all(isinstance(item, kinds) and item.ndim > 0 and len(item) == len(dataset[0]) for item in dataset):
        return False
    # The examples of a list all have the same number of dimensions.
    return isinstance(dataset, tuple) or len({item.ndim for item in dataset}) > 1


def not_negative(scores: torch.Tensor, ordering: str) -> None:
    """Raise if some scores are negative, for an ordering that does not support them."""
    negative = (scores < 0).nonzero().flatten()
    if len(negative) > 0:
        raise ValueError(
            f"scores must not be negative for {ordering}, but {len(negative)} of {len(scores)} are "
            f"(first: example {int(negative[0])} with {float(scores[negative[0]])})"
        )


def finite_scores(scores: Any, num_examples: int | None = None) -> torch.Tensor:  # noqa: ANN401 - anything array-like
    """Return `scores` as a detached one-dimensional tensor of finite real numbers, one per example."""
    values: torch.Tensor = torch.as_tensor(scores).detach()
    if values.ndim == 0:
        raise ValueError(
            f"scores must hold one number per example, got the single number {values.item()}. "
            'Was a loss averaged over its batch? Use reduction="none"'
        )
    if values.ndim != 1 or values.is_complex():
        raise ValueError(
            f"scores must be a one-dimensional tensor of real numbers, got shape {tuple(values.shape)} "
            f"of {values.dtype}{'' if num_examples is None else _reduction('scores', values, num_examples)}"
        )
    if num_examples is not None and len(values) != num_examples:
        raise ValueError(f"scores must hold one number per example: expected {num_examples}, got {len(values)}")
    if not are_finite(values):
        raise NonFiniteScoresError.of(values)
    return values


def are_finite(values: torch.Tensor) -> bool:
    """Whether all numbers of this vector are finite."""
    if values.device.type == "cpu" and values.dtype in {
        torch.float32,
        torch.float64,
    }:  # the common case, faster in numpy
        # For a batch, a dot product is faster still. For many numbers it would start the threads of BLAS.
        if values.numel() <= _SMALL and math.isfinite(values.dot(values)):
            return True
        return bool(np.isfinite(values.detach().numpy()).all())
    return bool(torch.isfinite(values).all())


def per_example(what: str, values: object, num_examples: int) -> torch.Tensor:
    """Return `values`, a tensor with one number per example of its batch; `what` is its name in error messages."""
    if not isinstance(values, torch.Tensor):
        raise TypeError(f"{what} must give a tensor with one number per example, got {values!r}")
    if values.shape == (num_examples,):
        return values
    rule = f"{what} must give one number per example, shape ({num_examples},)"
    if values.ndim == 0:
        raise ValueError(f'{rule}, got the scalar {values.item()}. Use reduction="none"')
    name = what.split(maxsplit=1)[0]
    raise ValueError(f"{rule}, got shape {tuple(values.shape)}{_reduction(name, values, num_examples)}")


def _reduction(name: str, values: torch.Tensor, num_examples: int) -> str:
    """Say how to get from several numbers per example to one; nothing if the first dimension is not the batch."""
    if values.ndim == 1 or len(values) != num_examples:
        return ""
    if values.shape == (num_examples, num_examples):
        # Averaging would hide the likely cause: a loss of (B, 1) predictions and (B,) targets broadcasts to (B, B).
        return (
            ". Were predictions of shape (B, 1) compared with targets of shape (B,)? Give both the same shape. If "
            f"every example has {num_examples} numbers, write {name}.flatten(1).mean(1)"
        )
    return f". Reduce the other dimensions, for example with {name}.flatten(1).mean(1)"


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in float32 or float64: half precision is too coarse for sums of squares and for sorting."""
    if tensor.dtype in {torch.float32, torch.float64}:  # the common case in a training step
        return tensor
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))

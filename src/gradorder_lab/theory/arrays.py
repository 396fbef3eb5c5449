"""Arrays as float64, checked: an error names the argument, the rule and the value."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def finite(name: str, values: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """`values` as a read-only float64 copy of this shape; None in the shape is any length but 0."""
    array = np.array(values, dtype=np.float64)
    fits = array.ndim == len(shape) and all(
        size == wanted if wanted is not None else size > 0 for size, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits:
        rule = "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
        raise ValueError(f"{name} must have shape {rule}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    array.setflags(write=False)
    return array


def one_per_step(name: str, values: ArrayLike, num_steps: int) -> Array:
    """`values` as one number for each step; a single number stands for all of them."""
    array = np.asarray(values, dtype=np.float64)
    return finite(name, np.full(num_steps, array) if array.ndim == 0 else array, (num_steps,))


def all_positive(name: str, values: Array) -> Array:
    """`values`, if all of them are above 0."""
    if not (values > 0).all():
        raise ValueError(f"{name} must be positive, got {values.min()}")
    return values


def norms(rows: Array) -> Array:
    """The Euclidean norm of each row."""
    return np.asarray(np.linalg.norm(rows, axis=-1), dtype=np.float64)

"""Labels -> classes: the class of every example as a small whole number."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

ATTRIBUTES = ("targets", "labels")
"""Where data sets keep one label per example."""


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of every example as a number 0..C-1, and how many examples each class has.

    Args:
        numbers: one for each example, of the smallest type that holds them.
        counts: examples of each class.
        source: where the labels came from, in words.
    """

    numbers: torch.Tensor
    counts: tuple[int, ...]
    source: str = "labels"

    @classmethod
    def of(cls, labels: Any, dataset: Any, num_examples: int) -> Self:  # noqa: ANN401 - anything array-like, any data set
        """From any vector of labels (integers, strings, booleans), or with True from the data set's own."""
        source = "labels"
        if labels is True:
            source, labels = _labels_of(dataset)
        values = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
        if values.shape != (num_examples,):
            raise ValueError(
                f"{source} must hold one label per example: expected shape ({num_examples},), got {values.shape}"
            )
        if values.dtype.kind not in "iubUS":
            raise ValueError(f"{source} must be integers, strings or booleans, got {values.dtype}")
        numbers, counts = _number(values)
        small = numbers.astype(np.min_scalar_type(len(counts)))
        return cls(torch.from_numpy(small), tuple(counts.tolist()), source)


def _number(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A number from 0 on for each value, in the order of the values, and how often each number comes."""
    is_text = values.dtype.kind in "US"
    lowest, highest = (0, 0) if is_text else (int(values.min()), int(values.max()))
    if is_text or highest - lowest > max(len(values), 2**16):
        _, numbers, counts = np.unique(values, return_inverse=True, return_counts=True)
        return numbers, counts
    # Counting beats sorting where the labels are small numbers.
    shifted = values.astype(np.int64, copy=False) - lowest if lowest else values.astype(np.int64, copy=False)
    tally = np.bincount(shifted)
    return (shifted, tally) if tally.all() else ((np.cumsum(tally > 0) - 1)[shifted], tally[tally > 0])


def _labels_of(dataset: Any) -> tuple[str, Any]:  # noqa: ANN401 - any data set
    """What the data set itself calls its labels: never guessed from what it hands out."""
    for name in ATTRIBUTES:
        if hasattr(dataset, name):
            return f"dataset.{name}", getattr(dataset, name)
    inner, indices = getattr(dataset, "dataset", None), getattr(dataset, "indices", None)
    if inner is not None and indices is not None:  # torch.utils.data.Subset
        name, labels = _labels_of(inner)
        return f"{name} of the subset", np.asarray(labels)[np.asarray(indices)]
    raise ValueError(
        f"labels=True takes the data set's own `{'` or `'.join(ATTRIBUTES)}`, and {type(dataset).__name__} has "
        "neither: pass the labels themselves"
    )

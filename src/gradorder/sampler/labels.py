"""Convert labels to classes: an integer from 0 on for every example."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

ATTRIBUTES = ("targets", "labels")
"""The attributes in which datasets usually keep one label per example."""


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of every example as an integer 0..C-1, and the size of each class.

    Args:
        numbers: the class of each example, in the smallest integer type that holds it.
        counts: the number of examples of each class.
        source: the origin of the labels, for error messages.
    """

    numbers: torch.Tensor
    counts: tuple[int, ...]
    source: str = "labels"

    @classmethod
    def of(cls, labels: Any, dataset: Any, num_examples: int) -> Self:  # noqa: ANN401 - anything array-like, any dataset
        """Return the classes for a vector of labels (integers, strings, booleans); True uses those of the dataset."""
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
    """Number the distinct values from 0 on in sorted order; return the number of each entry and their counts."""
    is_text = values.dtype.kind in "US"
    lowest, highest = (0, 0) if is_text else (int(values.min()), int(values.max()))
    if is_text or highest - lowest > max(len(values), 2**16):
        _, numbers, counts = np.unique(values, return_inverse=True, return_counts=True)
        return numbers, counts
    # For small integers, counting is faster than sorting.
    shifted = values.astype(np.int64, copy=False) - lowest if lowest else values.astype(np.int64, copy=False)
    tally = np.bincount(shifted)
    return (shifted, tally) if tally.all() else ((np.cumsum(tally > 0) - 1)[shifted], tally[tally > 0])


def _labels_of(dataset: Any) -> tuple[str, Any]:  # noqa: ANN401 - any dataset
    """Return the name and the values of the dataset's labels attribute. Labels are never guessed from its examples."""
    for name in ATTRIBUTES:
        if hasattr(dataset, name):
            return f"dataset.{name}", getattr(dataset, name)
    inner, indices = getattr(dataset, "dataset", None), getattr(dataset, "indices", None)
    if inner is not None and indices is not None:  # torch.utils.data.Subset
        name, labels = _labels_of(inner)
        return f"{name} of the subset", np.asarray(labels)[np.asarray(indices)]
    raise ValueError(
        f"labels=True needs a dataset with `{'` or `'.join(ATTRIBUTES)}`, but {type(dataset).__name__} has neither. "
        "Pass the labels themselves"
    )

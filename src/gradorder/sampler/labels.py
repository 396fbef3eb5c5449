"""Convert labels to classes: an integer from 0 on for every example."""

import logging
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

ATTRIBUTES = ("targets", "labels")
"""The attributes in which datasets usually keep one label per example."""

_COLUMNS = ("label", "labels")
"""The columns in which Hugging Face datasets usually keep them."""

_LEAST_PER_CLASS = 8
"""Labels that are found automatically are used only if the classes have at least this many examples on average.
Otherwise they may be identifiers or a regression target."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of every example as an integer 0..C-1, and the size of each class.

    Args:
        numbers: the class of each example, in the smallest integer type that holds it.
        counts: the number of examples of each class.
        source: the origin of the labels, for messages.
    """

    numbers: torch.Tensor
    counts: tuple[int, ...]
    source: str = "labels"

    @classmethod
    def of(cls, labels: Any, dataset: Any, num_examples: int) -> Self | None:  # noqa: ANN401 - anything array-like, any dataset
        """Return the classes for the argument `labels` of a sampler; None if batches are not stratified.

        Args:
            labels: one label per example (integers, strings or booleans); True for those of the dataset; "auto" for
                those of the dataset if it has any that look like classes; None for none.
            dataset: the dataset, or its length.
            num_examples: the number of examples.
        """
        if labels is None:
            return None
        if isinstance(labels, str) and labels == "auto":
            return cls._found_in(dataset, num_examples)
        return cls.given(labels, dataset, num_examples)

    @classmethod
    def given(cls, labels: Any, dataset: Any, num_examples: int) -> Self:  # noqa: ANN401 - as in `of`
        """Return the classes for one label per example, or for True: those of the dataset."""
        source = "labels"
        if labels is True:
            found = _labels_of(dataset)
            if found is None:
                raise ValueError(
                    f"labels=True needs a dataset with `{'` or `'.join(ATTRIBUTES)}`, a TensorDataset with an integer "
                    f"second column, or a Hugging Face dataset with an integer `label`, got {type(dataset).__name__}. "
                    "Pass the labels themselves"
                )
            source, labels = found
        values = _as_array(labels)
        if values.shape != (num_examples,):
            raise ValueError(
                f"{source} must hold one label per example: expected shape ({num_examples},), got {values.shape}"
            )
        if values.dtype.kind not in "iubUS":
            raise ValueError(f"{source} must be integers, strings or booleans, got {values.dtype}")
        return cls._numbered(values, source)

    @classmethod
    def _found_in(cls, dataset: Any, num_examples: int) -> Self | None:  # noqa: ANN401 - any dataset
        """Return the classes of the dataset's own labels, or None if it has none that look like classes."""
        try:
            found = _labels_of(dataset)
            if found is None:
                return None
            source, values = found[0], _as_array(found[1])
        except Exception as error:  # noqa: BLE001 - code of the dataset may run here, and labels are optional
            _log.info("batches are not stratified: the labels of the dataset cannot be read: %r", error)
            return None
        if values.shape != (num_examples,) or values.dtype.kind not in "iubUS":
            return None
        classes = cls._numbered(values, source)
        if not 2 <= len(classes.counts) <= num_examples / _LEAST_PER_CLASS:  # noqa: PLR2004 - one class is no class
            _log.info("batches are not stratified: %s has %d distinct labels", source, len(classes.counts))
            return None
        _log.info("batches are stratified by the %d classes of %s", len(classes.counts), source)
        return classes

    @classmethod
    def _numbered(cls, values: npt.NDArray[Any], source: str) -> Self:
        numbers, counts = _number(values)
        small = numbers.astype(np.min_scalar_type(len(counts)))
        return cls(torch.from_numpy(small), tuple(counts.tolist()), source)


def _as_array(labels: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - anything array-like
    return labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)


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


def _labels_of(dataset: Any) -> tuple[str, Any] | None:  # noqa: ANN401 - any dataset
    """Return the name and the values of the labels that the dataset shows without loading an example, if any."""
    for name in ATTRIBUTES:
        labels = getattr(dataset, name, None)
        if labels is not None and not callable(labels):
            return f"dataset.{name}", labels
    if isinstance(dataset, torch.utils.data.TensorDataset):
        return _second_column(dataset)
    if hasattr(dataset, "features") and hasattr(dataset, "with_format"):
        return _hugging_face_column(dataset)
    inner, indices = getattr(dataset, "dataset", None), getattr(dataset, "indices", None)
    if inner is not None and indices is not None:  # torch.utils.data.Subset
        found = _labels_of(inner)
        return found and (f"{found[0]} of the subset", _as_array(found[1])[np.asarray(indices)])
    return None


def _second_column(dataset: torch.utils.data.TensorDataset) -> tuple[str, Any] | None:
    columns = dataset.tensors
    if len(columns) < 2 or columns[1].ndim != 1 or columns[1].is_floating_point():  # noqa: PLR2004 - (inputs, labels)
        return None
    return "the second column", columns[1]


def _hugging_face_column(dataset: Any) -> tuple[str, Any] | None:  # noqa: ANN401 - datasets.Dataset
    """Return the column with the labels. Reading one column loads no example and applies no transform."""
    for name in _COLUMNS:
        feature = (dataset.features or {}).get(name)
        if feature is not None and (hasattr(feature, "names") or "int" in str(getattr(feature, "dtype", ""))):
            return f"the column {name!r}", np.asarray(dataset.with_format("numpy")[name][:])
    return None

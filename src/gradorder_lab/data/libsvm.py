"""a9a and w8a: sparse tables of zeros and ones in LIBSVM's text format, in the user's own files.

Both come from Platt, "Fast Training of Support Vector Machines using Sequential Minimal Optimization" (1998). a9a asks
whether a person earns more than 50,000 dollars a year, w8a whether a web page belongs to a category.
"""

from io import BytesIO
from pathlib import Path

import torch

from gradorder_lab.data.examples import LabelledTensors, random_split
from gradorder_lab.data.files import found, read_text
from gradorder_lab.errors import DatasetFileError

_TEST_SHARE = 0.2  # of w8a; a9a has a test set of its own


def a9a(directory: Path | None) -> tuple[LabelledTensors, LabelledTensors, int]:
    """Return the training set, the test set and the number of classes: inputs float32 (N, 123)."""
    train, test = (_read(directory, name, num_features=123) for name in ("a9a", "a9a.t"))
    return train, test, 2


def w8a(directory: Path | None) -> tuple[LabelledTensors, LabelledTensors, int]:
    """Return the training set, a random fifth as the test set, and the number of classes: inputs float32 (N, 300)."""
    return *random_split(_read(directory, "w8a", num_features=300), _TEST_SHARE), 2


def _read(directory: Path | None, name: str, num_features: int) -> LabelledTensors:
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415 - only these tables need it

    path = found(directory, "libsvm", name, f"{name} in LIBSVM's text format")
    try:
        inputs, labels = load_svmlight_file(
            BytesIO(read_text(path).encode()), n_features=num_features, dtype="float32", zero_based=False
        )
    except ValueError as error:
        raise DatasetFileError(path, f"must be in LIBSVM's text format: {error}") from error
    if set(labels.tolist()) != {-1, 1}:
        raise DatasetFileError(path, f"labels must be -1 and +1, got {sorted(set(labels.tolist()))}")
    return LabelledTensors(torch.from_numpy(inputs.toarray()), torch.from_numpy(labels > 0).long())

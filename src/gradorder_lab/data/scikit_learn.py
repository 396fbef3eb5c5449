"""Three small tables that come with scikit-learn: digits and breast cancer have classes, diabetes is a regression."""

from pathlib import Path

from gradorder_lab.data.examples import LabelledTensors
from gradorder_lab.data.standardised import standardised_split

_TEST_SHARE = 0.3


def digits(_: Path | None) -> tuple[LabelledTensors, LabelledTensors, int]:
    """Return the training set, the test set and the number of classes: inputs float32 (N, 64)."""
    return *_table("digits"), 10


def breast_cancer(_: Path | None) -> tuple[LabelledTensors, LabelledTensors, int]:
    """Return the training set, the test set and the number of classes: inputs float32 (N, 30)."""
    return *_table("breast_cancer"), 2


def diabetes(_: Path | None) -> tuple[LabelledTensors, LabelledTensors, int]:
    """Return the training set, the test set and the number of targets: inputs float32 (N, 10)."""
    return *_table("diabetes"), 1


def _table(name: str) -> tuple[LabelledTensors, LabelledTensors]:
    from sklearn import datasets  # noqa: PLC0415 - only these tables need it

    inputs, targets = getattr(datasets, f"load_{name}")(return_X_y=True)
    return standardised_split(inputs, targets, _TEST_SHARE)

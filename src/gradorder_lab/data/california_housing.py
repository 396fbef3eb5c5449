"""California housing: the median house value of a block group from eight numbers, in the user's own file.

From Pace and Barry, "Sparse Spatial Autoregressions" (1997): lines of eight features and the value, with commas.
"""

from io import StringIO
from pathlib import Path

import numpy as np

from gradorder_lab.data.examples import LabelledTensors
from gradorder_lab.data.files import found, read_text
from gradorder_lab.data.standardised import standardised_split
from gradorder_lab.errors import DatasetFileError

_NUM_COLUMNS = 9
_TEST_SHARE = 0.2


def california_housing(directory: Path | None) -> tuple[LabelledTensors, LabelledTensors, int]:
    """Return the training set, a random fifth as the test set, and the number of targets: inputs float32 (N, 8)."""
    path = found(directory, "california-housing", "cal_housing.data", "California housing, nine numbers per line,")
    try:
        table = np.loadtxt(StringIO(read_text(path)), delimiter=",", ndmin=2)
    except ValueError as error:
        raise DatasetFileError(path, f"must hold nine numbers per line, separated by commas: {error}") from error
    if table.shape[1] != _NUM_COLUMNS:
        raise DatasetFileError(path, f"must hold nine numbers per line, got {table.shape[1]}")
    return *standardised_split(table[:, :-1], table[:, -1], _TEST_SHARE), 1

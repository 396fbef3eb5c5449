"""Tables of numbers, split at random and brought to mean 0 and variance 1 by their training part."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradorder_lab.data.examples import LabelledTensors, without_some

_TABLE = NDArray[np.floating[Any] | np.integer[Any]]


def standardised_split(inputs: _TABLE, targets: _TABLE, test_share: float) -> tuple[LabelledTensors, LabelledTensors]:
    """Return the training set and the test set; targets are standardised as well, unless they are whole numbers."""
    train, test = without_some(len(inputs), round(test_share * len(inputs)))
    parts = []
    for values in (inputs, targets):
        table = torch.from_numpy(values)
        if table.is_floating_point():
            deviation, mean = torch.std_mean(table[train], 0, correction=0)
            # A constant column stays 0 instead of becoming nan.
            table = ((table - mean) / torch.where(deviation > 0, deviation, 1)).float()
        parts.append(table)
    return LabelledTensors(parts[0][train], parts[1][train]), LabelledTensors(parts[0][test], parts[1][test])

"""Boston housing: 506 towns of 13 numbers each, and the price of a house (the paper says 560 towns)."""

import csv
from functools import cache
from importlib import resources

import numpy as np

from gradorder_lab.runs.recipe import Array


@cache
def boston() -> tuple[Array, Array]:
    """Features (506, 13) and prices in thousands of dollars (506,)."""
    with (resources.files("gradorder_lab.data") / "boston.csv").open(encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("#")]
    table = np.array([[float(cell) for cell in row] for row in list(csv.reader(lines))[1:]])
    return table[:, :-1], table[:, -1]

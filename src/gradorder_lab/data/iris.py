"""Iris: 150 flowers of 4 numbers each, and the species as the number 0, 1 or 2."""

from functools import cache

import numpy as np

from gradorder_lab.runs.recipe import Array


@cache
def iris() -> tuple[Array, Array]:
    """Features (150, 4) and species (150,)."""
    from sklearn.datasets import load_iris  # noqa: PLC0415 - slow to load, and only iris needs it

    found = load_iris()
    return found.data.astype(np.float64), found.target.astype(np.float64)

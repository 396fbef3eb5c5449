"""Linear regression with the paper's loss, on iris and Boston: f_i(w, b) = r^4 + r^2, r = w . x_i + b - y_i.

Each data set comes in two versions. `literal` has the paper's numbers: raw features and a step of 6e-4 times 1e-10,
with which iris hardly moves. `scaled` has standardised features and target and the largest step of 1, 2, 5 x 10^-k
with which F falls in every epoch of every ordering of the paper while the step is constant.
"""

import csv
from functools import cache
from importlib import resources

import numpy as np

from gradorder_lab.problems.convex import Array, ConvexProblem

LITERAL_STEP_SIZE = 6e-4 * 1e-10
"""The factor in front of the gradients, as a factor of the step size: the same updates."""


def iris_literal(seed: int) -> ConvexProblem:
    """150 flowers, the species as the number 0, 1 or 2."""
    del seed  # data and start are fixed: seeds differ in the random orders alone
    return _regression(*_iris())


def iris_scaled(seed: int) -> ConvexProblem:
    """Iris, standardised."""
    del seed
    return _regression(*(_standardised(values) for values in _iris()))


def boston_literal(seed: int) -> ConvexProblem:
    """506 towns, the price in thousands of dollars."""
    del seed
    return _regression(*_boston())


def boston_scaled(seed: int) -> ConvexProblem:
    """Boston, standardised."""
    del seed
    return _regression(*(_standardised(values) for values in _boston()))


def _regression(features: Array, target: Array) -> ConvexProblem:
    rows = np.column_stack([features, np.ones(len(features))])
    return ConvexProblem(rows[:, None, :].copy(), target[:, None].copy(), start=np.zeros(rows.shape[1]))


def _standardised(values: Array) -> Array:
    standardised: Array = (values - values.mean(0)) / values.std(0)
    return standardised


@cache
def _iris() -> tuple[Array, Array]:
    from sklearn.datasets import load_iris  # noqa: PLC0415 - slow to load, and only iris needs it

    iris = load_iris()
    return iris.data.astype(np.float64), iris.target.astype(np.float64)


@cache
def _boston() -> tuple[Array, Array]:
    with (resources.files("gradorder_lab.datasets") / "boston.csv").open(encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("#")]
    table = np.array([[float(cell) for cell in row] for row in list(csv.reader(lines))[1:]])
    return table[:, :-1], table[:, -1]

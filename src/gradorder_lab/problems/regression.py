"""Linear regression with the paper's loss, on iris and Boston: f_i(w, b) = r^4 + r^2, r = w . x_i + b - y_i.

Each data set comes in two versions. `literal` has the paper's numbers: raw features and a step of 6e-4 times 1e-10,
with which iris hardly moves. `scaled` has standardised features and target and the largest step of 1, 2, 5 x 10^-k
with which F falls in every epoch of every ordering of the paper while the step is constant.
"""

from collections.abc import Callable
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from gradorder_lab.errors import LabError
from gradorder_lab.problems.problem import ConvexProblem
from gradorder_lab.runs.recipe import Array

LITERAL_STEP_SIZE = 6e-4 * 1e-10
"""The factor in front of the gradients, as a factor of the step size: the same updates."""

Read = Callable[[], tuple[Array, Array]]
"""Features (n, d) and target (n,) of a data set."""


@cache
def iris() -> tuple[Array, Array]:
    """150 flowers: features (150, 4), and the species as the number 0, 1 or 2, (150,)."""
    package = find_spec("sklearn")  # its file alone: the package takes a second to load
    if package is None or package.submodule_search_locations is None:
        raise LabError('iris is in scikit-learn: pip install "gradorder[sklearn]"')
    path = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "iris.csv"
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :-1].copy(), table[:, -1].copy()


@cache
def boston() -> tuple[Array, Array]:
    """506 towns (the paper says 560): features (506, 13) and prices in thousands of dollars (506,)."""
    with (resources.files("gradorder_lab.data") / "boston.csv").open(encoding="utf-8") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=5)  # where it comes from, and the names of the columns
    return table[:, :-1], table[:, -1]


def literal(read: Read) -> Callable[[int], ConvexProblem]:
    """The data as they are, with every seed: seeds differ in the random orders alone."""
    return lambda _: _regression(*read())


def scaled(read: Read) -> Callable[[int], ConvexProblem]:
    """The data standardised, likewise."""
    return lambda _: _regression(*((values - values.mean(0)) / values.std(0) for values in read()))


def _regression(features: Array, target: Array) -> ConvexProblem:
    rows = np.column_stack([features, np.ones(len(features))])
    return ConvexProblem(rows[:, None, :].copy(), target[:, None].copy(), start=np.zeros(rows.shape[1]))

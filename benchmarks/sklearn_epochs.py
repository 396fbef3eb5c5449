"""What an epoch of the ordered estimators costs, next to a plain epoch of scikit-learn's own SGD.

Both do the same work: the same loss, penalty and constant step size, every example visited once per epoch, as many
epochs (tol=None), float64, dense or CSR with random entries (without an intercept there, as scikit-learn trains that of
sparse data in another way). Ours in three orders: random, as scikit-learn's; descending, which scores and sorts
all examples first; and the data's own. All in turn in one process on one thread; processor time, so that waiting for
a busy machine does not count, per epoch, as the median over the rounds.
Compiling is left out of it and stands in columns of its own: the processor seconds of the first fit of a process that
finds nothing cached, in the default order and in descending order.

    python benchmarks/sklearn_epochs.py            # writes results/sklearn_epochs.csv
"""

import csv
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.linear_model import SGDClassifier, SGDRegressor

from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor


class Shape(NamedTuple):
    """Of the data."""

    num_examples: int
    num_features: int
    num_entries: int = 0
    """Per row of a CSR matrix; 0 for a dense one."""

    def __str__(self) -> str:
        size = f"{self.num_examples:,} x {self.num_features:,}"
        return f"{size}, {self.num_entries} a row" if self.num_entries else size


SHAPES = [
    Shape(506, 13),
    Shape(20_000, 50),
    Shape(20_000, 500),
    Shape(200_000, 50),
    Shape(32_561, 123, 14),
    Shape(20_000, 50_000, 75),
]
LOSSES = ["squared_error", "log_loss", "hinge"]
ORDERS = ["random", "descending", "sequential"]
RESULTS = Path(__file__).resolve().parent.parent / "results" / "sklearn_epochs.csv"
ROUNDS = 11
NUMBERS_PER_FIT = 4 * 10**7
THREADS = 1
VERSIONS = ", ".join(
    f"{name} {version}"
    for name, version in {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "scikit-learn": sklearn.__version__,
    }.items()
)

Estimator = Any
"""Of scikit-learn, which has no types."""


def data(loss: str, shape: Shape) -> tuple[Any, Any]:
    """A noisy linear problem."""
    rng = np.random.default_rng(0)
    num_examples, num_features, num_entries = shape
    if num_entries:
        columns = np.sort(rng.integers(0, num_features, (num_examples, num_entries), dtype=np.int32)).ravel()
        starts = np.arange(0, num_examples * num_entries + 1, num_entries, dtype=np.int32)
        inputs = sp.csr_array((rng.standard_normal(len(columns)), columns, starts), shape=(num_examples, num_features))
        inputs.sum_duplicates()
    else:
        inputs = rng.standard_normal((num_examples, num_features))
    targets = inputs @ rng.standard_normal(num_features) + rng.standard_normal(num_examples)
    return inputs, targets if loss == "squared_error" else targets > 0


def estimators(loss: str, num_epochs: int, *, fit_intercept: bool = True) -> dict[str, Estimator]:
    """Scikit-learn's, and ours by order."""
    params: dict[str, Any] = {"loss": loss, "tol": None, "max_iter": num_epochs, "eta0": 1e-4, "random_state": 0}
    params["fit_intercept"] = fit_intercept
    theirs, ours = (
        (SGDRegressor, OrderedSGDRegressor) if loss == "squared_error" else (SGDClassifier, OrderedSGDClassifier)
    )
    plain = {"scikit-learn": theirs(learning_rate="constant", **params)}
    return plain | {order: ours(ordering=order, schedule="constant", **params) for order in ORDERS}


def seconds(loss: str, shape: Shape) -> dict[str, float]:
    """The median seconds of one epoch of each, in turn."""
    inputs, targets = data(loss, shape)
    num_epochs = max(2, NUMBERS_PER_FIT // inputs.size)
    each = estimators(loss, num_epochs, fit_intercept=not shape.num_entries)
    for estimator in each.values():
        estimator.set_params(max_iter=1).fit(inputs, targets)  # once to compile
        estimator.set_params(max_iter=num_epochs)
    rounds = [{name: fit_seconds(each[name], inputs, targets) for name in each} for _ in range(ROUNDS)]
    return {name: median(taken[name] for taken in rounds) / num_epochs for name in each}


def fit_seconds(estimator: Estimator, inputs: Any, targets: Any) -> float:  # noqa: ANN401 - arrays
    """Processor seconds of one fit."""
    started = time.process_time()
    estimator.fit(inputs, targets)
    return time.process_time() - started


def compile_seconds(order: str) -> float:
    """Seconds of the first fit in a process of its own, with nothing cached."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--compile", order]
        environment = {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": ":".join(sys.path)}
        result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603 - ourselves
    return float(result.stdout)


def print_compile_seconds(order: str) -> None:
    """The child process's part."""
    inputs, targets = data("squared_error", Shape(100, 5))
    estimator = estimators("squared_error", 1)[order]
    first, again = (fit_seconds(estimator, inputs, targets) for _ in range(2))
    print(first - again)


def rows() -> Iterator[dict[str, object]]:
    """The table."""
    compiling = {order: compile_seconds(order) for order in ("random", "descending")}
    for loss in LOSSES:
        for shape in SHAPES:
            taken = seconds(loss, shape)
            for order in ORDERS:
                yield {
                    "loss": loss,
                    "shape": str(shape),
                    "order": order,
                    "seconds_sklearn": f"{taken['scikit-learn']:.3g}",
                    "seconds_ours": f"{taken[order]:.3g}",
                    "ratio": f"{taken[order] / taken['scikit-learn']:.2f}",
                    **{f"compile_seconds_{name}": f"{value:.1f}" for name, value in compiling.items()},
                    "threads": THREADS,
                    "versions": VERSIONS,
                }


def table(found: list[dict[str, object]]) -> Iterator[str]:
    """The lines of the table in docs/estimators.md."""
    by_case = {(row["loss"], row["shape"], row["order"]): row for row in found}
    for loss in LOSSES:
        for shape in SHAPES:
            cells = [by_case[loss, str(shape), order] for order in ORDERS]
            microseconds = f"{float(str(cells[0]['seconds_sklearn'])) * 1e6:,.0f}"
            shown = [f"`{loss}`, {shape}", microseconds, *(row["ratio"] for row in cells)]
            yield f"| {' | '.join(map(str, shown))} |"


def main() -> None:
    """Measure, print and save."""
    found = []
    for row in rows():
        found.append(row)
        print(f"{row['loss']:>14} {row['shape']:>25} {row['order']:>11} {row['ratio']:>6}", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    print("\n" + "\n".join(table(found)))
    print(f"\ncompiled in {found[0]['compile_seconds_random']} s; written to {RESULTS.name}")


if __name__ == "__main__":
    if "--compile" in sys.argv:
        print_compile_seconds(sys.argv[-1])
    else:
        main()

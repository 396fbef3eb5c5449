"""What an epoch of the ordered estimators costs, next to a plain epoch of scikit-learn's own SGD.

Both do the same work: the same loss, penalty and constant step size, every example visited once per epoch, as many
epochs (tol=None), dense float64. Ours in three orders: random, as scikit-learn's; descending, which scores and sorts
all examples first; and the data's own. All in turn in one process on one thread; processor time, so that waiting for
a busy machine does not count, per epoch, as the median over the rounds.
Compiling is left out of it and stands in a column of its own: the seconds of the first fit of a process that finds
nothing cached.

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
from typing import Any

import numba
import numpy as np
import sklearn
from sklearn.linear_model import SGDClassifier, SGDRegressor

from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor

SHAPES = [(506, 13), (20_000, 50), (20_000, 500), (200_000, 50)]
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


def data(loss: str, num_examples: int, num_features: int) -> tuple[Any, Any]:
    """A noisy linear problem."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((num_examples, num_features))
    targets = inputs @ rng.standard_normal(num_features) + rng.standard_normal(num_examples)
    return inputs, targets if loss == "squared_error" else targets > 0


def estimators(loss: str, num_epochs: int) -> dict[str, Estimator]:
    """Scikit-learn's, and ours by order."""
    params: dict[str, Any] = {"loss": loss, "tol": None, "max_iter": num_epochs, "eta0": 1e-4, "random_state": 0}
    theirs, ours = (
        (SGDRegressor, OrderedSGDRegressor) if loss == "squared_error" else (SGDClassifier, OrderedSGDClassifier)
    )
    plain = {"scikit-learn": theirs(learning_rate="constant", **params)}
    return plain | {order: ours(ordering=order, schedule="constant", **params) for order in ORDERS}


def seconds(loss: str, num_examples: int, num_features: int) -> dict[str, float]:
    """The median seconds of one epoch of each, in turn."""
    num_epochs = max(2, NUMBERS_PER_FIT // (num_examples * num_features))
    inputs, targets = data(loss, num_examples, num_features)
    each = estimators(loss, num_epochs)
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


def compile_seconds() -> float:
    """Seconds of the first fit in a process of its own, with nothing cached."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--compile"]
        environment = {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": ":".join(sys.path)}
        result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603 - ourselves
    return float(result.stdout)


def print_compile_seconds() -> None:
    """The child process's part."""
    inputs, targets = data("squared_error", 100, 5)
    estimator = estimators("squared_error", 1)["descending"]
    first, again = (fit_seconds(estimator, inputs, targets) for _ in range(2))
    print(first - again)


def rows() -> Iterator[dict[str, object]]:
    """The table."""
    compiling = compile_seconds()
    for loss in LOSSES:
        for num_examples, num_features in SHAPES:
            taken = seconds(loss, num_examples, num_features)
            for order in ORDERS:
                yield {
                    "estimator": "OrderedSGDRegressor" if loss == "squared_error" else "OrderedSGDClassifier",
                    "loss": loss,
                    "n": num_examples,
                    "d": num_features,
                    "order": order,
                    "seconds_sklearn": f"{taken['scikit-learn']:.3g}",
                    "seconds_ours": f"{taken[order]:.3g}",
                    "ratio": f"{taken[order] / taken['scikit-learn']:.2f}",
                    "compile_seconds": f"{compiling:.1f}",
                    "threads": THREADS,
                    "versions": VERSIONS,
                }


def table(found: list[dict[str, object]]) -> Iterator[str]:
    """The lines of the table in docs/estimators.md."""
    ratios = {(row["loss"], row["n"], row["d"], row["order"]): row for row in found}
    for loss in LOSSES:
        for num_examples, num_features in SHAPES:
            cells = [ratios[loss, num_examples, num_features, order] for order in ORDERS]
            microseconds = f"{float(str(cells[0]['seconds_sklearn'])) * 1e6:,.0f}"
            shown = [f"`{loss}`, {num_examples:,} x {num_features}", microseconds, *(row["ratio"] for row in cells)]
            yield f"| {' | '.join(map(str, shown))} |"


def main() -> None:
    """Measure, print and save."""
    found = []
    for row in rows():
        found.append(row)
        print(f"{row['loss']:>14} {row['n']:>7} x {row['d']:<4} {row['order']:>11} {row['ratio']:>6}", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    print("\n" + "\n".join(table(found)))
    print(f"\ncompiled in {found[0]['compile_seconds']} s, once; written to {RESULTS.name}")


if __name__ == "__main__":
    if "--compile" in sys.argv:
        print_compile_seconds()
    else:
        main()

"""The estimators' defaults next to scikit-learn's on four data sets, and the paper's order by name.

Every estimator is made with `random_state` alone, and ours once more with `ordering="descending"`. Five seeds, each
with a split of its own (a fifth held out) but for a9a, which has a test set. Digits as they are, a9a and w8a as they
are (sparse), the eight columns of California housing and its price in 100,000 dollars after `StandardScaler` for the
columns.

    python benchmarks/sklearn_defaults.py DIR      # writes results/sklearn_defaults.csv

DIR holds the published files: `a9a`, `a9a.t` and `w8a` of the LIBSVM data sets, and `cal_housing.data` of StatLib.
Digits comes with scikit-learn.
"""

import csv
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor

NAMES = ["a9a", "w8a", "digits", "California housing"]
SEEDS = range(5)
RESULTS = Path(__file__).resolve().parent.parent / "results" / "sklearn_defaults.csv"


class Split(NamedTuple):
    """What is trained on, and what is judged by."""

    inputs: Any
    test_inputs: Any
    targets: Any
    test_targets: Any


def split(name: str, directory: Path, seed: int) -> Split:
    """One of `NAMES`."""
    if name == "a9a":
        inputs, targets = load_svmlight_file(directory / "a9a", n_features=123)
        test_inputs, test_targets = load_svmlight_file(directory / "a9a.t", n_features=123)
        return Split(with_short_indices(inputs), test_inputs, targets, test_targets)
    if name == "California housing":
        table = np.loadtxt(directory / "cal_housing.data", delimiter=",")
        parts = Split(*train_test_split(table[:, :8], table[:, 8] / 1e5, test_size=0.2, random_state=seed))
        scaler = StandardScaler().fit(parts.inputs)
        return parts._replace(inputs=scaler.transform(parts.inputs), test_inputs=scaler.transform(parts.test_inputs))
    inputs, targets = load_digits(return_X_y=True) if name == "digits" else load_svmlight_file(directory / "w8a")
    return Split(*train_test_split(inputs, targets, test_size=0.2, random_state=seed, stratify=targets))


def with_short_indices(matrix: Any) -> Any:  # noqa: ANN401 - a CSR matrix
    """Indices of 32 bits, as scikit-learn's SGD takes no others."""
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def estimators(name: str, seed: int) -> dict[str, Any]:
    """Scikit-learn's, ours, and ours in the paper's order."""
    theirs, ours = (
        (SGDRegressor, OrderedSGDRegressor) if name == "California housing" else (SGDClassifier, OrderedSGDClassifier)
    )
    return {
        "scikit-learn": theirs(random_state=seed),
        "ours": ours(random_state=seed),
        "descending": ours(ordering="descending", random_state=seed),
    }


def rows(directory: Path) -> Iterator[dict[str, object]]:
    """One for each data set, seed and estimator."""
    for name in NAMES:
        for seed in SEEDS:
            data = split(name, directory, seed)
            for which, estimator in estimators(name, seed).items():
                estimator.fit(data.inputs, data.targets)
                score = estimator.score(data.test_inputs, data.test_targets)
                yield {
                    "data": name,
                    "estimator": which,
                    "seed": seed,
                    "score": f"{score:.4f}",
                    "epochs": estimator.n_iter_,
                }


def table(found: list[dict[str, object]]) -> Iterator[str]:
    """The lines of the table in docs/estimators.md: means and standard deviations over the seeds."""
    for name in NAMES:
        cells = [name]
        for which in ("scikit-learn", "ours", "descending"):
            scores = [float(str(row["score"])) for row in found if row["data"] == name and row["estimator"] == which]
            cells.append(f"{mean(scores):.4f} ± {stdev(scores):.4f}")
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, print and save."""
    warnings.simplefilter("ignore")
    found = list(rows(Path(sys.argv[1])))
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()

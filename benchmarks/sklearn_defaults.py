"""The estimators' defaults next to scikit-learn's, with other orders by name, and on data with few positives.

Every estimator is made with `random_state` alone; ours also with `ordering="flip-flop"`, with
`ordering="descending"`, and with the hinge loss on data with few positives. Ten seeds, each with a split of its own (a
fifth held out) but for a9a, which has a test set. Digits, a9a and w8a as they are, the eight columns of California
housing after `StandardScaler`, its price in 100,000 dollars.

Few positives: w8a has 3%. Of a9a, all but 2% of the positives are dropped at random. The others are made by
scikit-learn: 20,000 examples of 20 features, 8 of them informative.

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
from sklearn.datasets import load_digits, load_svmlight_file, make_classification
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor

NAMES = ["a9a", "w8a", "digits", "California housing"]
MADE: dict[str, dict[str, Any]] = {
    "made, 1%, apart": {"weights": [0.99], "class_sep": 2.0, "flip_y": 0.0},
    "made, 1%, overlapping": {"weights": [0.99], "class_sep": 1.0, "flip_y": 0.0},
    "made, 2%, noisy labels": {"weights": [0.985], "class_sep": 1.0, "flip_y": 0.01},
    "made, 3%, overlapping": {"weights": [0.97], "class_sep": 0.5, "flip_y": 0.0},
}
RARE = ["w8a", "a9a, 2%", *MADE]
SEEDS = range(10)
RESULTS = Path(__file__).resolve().parent.parent / "results" / "sklearn_defaults.csv"


class Split(NamedTuple):
    """What is trained on, and what is judged by."""

    inputs: Any
    test_inputs: Any
    targets: Any
    test_targets: Any


def split(name: str, directory: Path, seed: int) -> Split:
    """One of `NAMES` or `RARE`."""
    if name == "a9a":
        inputs, targets = load_svmlight_file(directory / "a9a", n_features=123)
        test_inputs, test_targets = load_svmlight_file(directory / "a9a.t", n_features=123)
        return Split(with_short_indices(inputs), test_inputs, targets, test_targets)
    if name == "a9a, 2%":
        parts = split("a9a", directory, seed)
        kept, test_kept = (few_positives(each, 0.02, seed) for each in (parts.targets, parts.test_targets))
        inputs, test_inputs = with_short_indices(parts.inputs[kept]), parts.test_inputs[test_kept]
        return Split(inputs, test_inputs, parts.targets[kept], parts.test_targets[test_kept])
    if name == "California housing":
        table = np.loadtxt(directory / "cal_housing.data", delimiter=",")
        parts = Split(*train_test_split(table[:, :8], table[:, 8] / 1e5, test_size=0.2, random_state=seed))
        scaler = StandardScaler().fit(parts.inputs)
        return parts._replace(inputs=scaler.transform(parts.inputs), test_inputs=scaler.transform(parts.test_inputs))
    if name in MADE:
        inputs, targets = make_classification(20_000, 20, n_informative=8, random_state=0, **MADE[name])
    else:
        inputs, targets = load_digits(return_X_y=True) if name == "digits" else load_svmlight_file(directory / "w8a")
    return Split(*train_test_split(inputs, targets, test_size=0.2, random_state=seed, stratify=targets))


def few_positives(targets: Any, part: float, seed: int) -> Any:  # noqa: ANN401 - arrays
    """The examples to keep: all negatives, and the number of positives that makes this share of the whole."""
    positives, negatives = np.flatnonzero(targets > 0), np.flatnonzero(targets <= 0)
    num = round(part / (1 - part) * len(negatives))
    return np.sort(np.r_[negatives, np.random.default_rng(seed).permutation(positives)[:num]])


def with_short_indices(matrix: Any) -> Any:  # noqa: ANN401 - a CSR matrix
    """Indices of 32 bits, as scikit-learn's SGD takes no others."""
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def estimators(name: str, seed: int) -> dict[str, Any]:
    """Scikit-learn's, and ours by what is set."""
    theirs, ours = (
        (SGDRegressor, OrderedSGDRegressor) if name == "California housing" else (SGDClassifier, OrderedSGDClassifier)
    )
    made = {
        "scikit-learn": theirs(random_state=seed),
        "ours": ours(random_state=seed),
        "flip-flop": ours(ordering="flip-flop", random_state=seed),
        "descending": ours(ordering="descending", random_state=seed),
    }
    return made | ({"hinge": ours("hinge", random_state=seed)} if name in RARE else {})


def rows(directory: Path) -> Iterator[dict[str, object]]:
    """One for each data set, seed and estimator; of data with few positives, also what is found of them."""
    for name in dict.fromkeys(NAMES + RARE):
        for seed in SEEDS:
            data = split(name, directory, seed)
            for which, estimator in estimators(name, seed).items():
                estimator.fit(data.inputs, data.targets)
                score = estimator.score(data.test_inputs, data.test_targets)
                row = {"data": name, "estimator": which, "seed": seed, "score": f"{score:.4f}"}
                yield row | {"epochs": estimator.n_iter_} | positives(name, data, estimator)


def positives(name: str, data: Split, estimator: Any) -> dict[str, object]:  # noqa: ANN401 - of scikit-learn
    """How many there are in the test set, how many are predicted, and how many of these are right."""
    if name not in RARE:
        return {"positives": "", "predicted": "", "found": ""}
    is_positive, is_predicted = data.test_targets > 0, estimator.predict(data.test_inputs) > 0
    found = is_positive & is_predicted
    return {"positives": is_positive.sum(), "predicted": is_predicted.sum(), "found": found.sum()}


def table(found: list[dict[str, object]]) -> Iterator[str]:
    """The lines of the first table in docs/estimators.md: means and standard deviations over the seeds."""
    for name in NAMES:
        cells = [name]
        for which in ("scikit-learn", "ours", "flip-flop", "descending"):
            scores = [float(str(row["score"])) for row in found if row["data"] == name and row["estimator"] == which]
            cells.append(f"{mean(scores):.4f} ± {stdev(scores):.4f}")
        yield f"| {' | '.join(cells)} |"


def rare_table(found: list[dict[str, object]]) -> Iterator[str]:
    """The lines of the second table: positives found, of those predicted, summed over the seeds."""
    for name in RARE:
        cells = [name.replace("%", "% positives") if "%" in name else f"{name}, 3% positives"]
        for which in ("scikit-learn", "hinge", "ours", "flip-flop"):
            chosen = [row for row in found if row["data"] == name and row["estimator"] == which]
            sums = {key: sum(int(str(row[key])) for row in chosen) for key in ("positives", "predicted", "found")}
            cells.append(f"{sums['found']:,} of {sums['predicted']:,}")
        cells.insert(1, f"{sums['positives']:,}")
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, print and save."""
    warnings.simplefilter("ignore")
    found = list(rows(Path(sys.argv[1])))
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    print("\n".join([*table(found), "", *rare_table(found)]))


if __name__ == "__main__":
    main()

import csv
import re
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parent.parent.parent.parent
DOCUMENT = (ROOT / "docs" / "estimators.md").read_text()
ORDERS = ["random", "descending", "sequential"]


def rows(name):
    with (ROOT / "results" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def table(title):
    """The cells after the first of each line whose first cell matches."""
    lines = re.findall(rf"^\| {title} \|.*$", DOCUMENT, flags=re.MULTILINE)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first: rest for first, *rest in cells}


def test_the_epochs_are_the_measured_ones():
    documented, measured = table(r"`\w+`, [\d,]+ x [^|]+"), rows("sklearn_epochs")
    assert len(documented) * len(ORDERS) == len(measured)
    for row in measured:
        microseconds, *ratios = documented[f"`{row['loss']}`, {row['shape']}"]
        assert microseconds == f"{float(row['seconds_sklearn']) * 1e6:,.0f}"
        assert ratios[ORDERS.index(row["order"])] == row["ratio"]
        assert abs(float(row["seconds_ours"]) / float(row["seconds_sklearn"]) - float(row["ratio"])) < 0.02


def test_the_defaults_are_the_measured_ones():
    measured = rows("sklearn_defaults")
    for name in ("a9a", "w8a", "digits", "California housing"):
        (cells,) = table(name).values()
        for cell, which in zip(cells, ["scikit-learn", "ours", "flip-flop", "descending"], strict=True):
            scores = [float(row["score"]) for row in measured if (row["data"], row["estimator"]) == (name, which)]
            assert len(scores) == 10
            assert cell == f"{mean(scores):.4f} ± {stdev(scores):.4f}"


def rare():
    """Rows of data with few positives, by data set and estimator."""
    found = defaultdict(list)
    for row in rows("sklearn_defaults"):
        if row["positives"]:
            found[row["data"], row["estimator"]].append(row)
    return found


def test_the_positives_are_the_measured_ones():
    documented, measured = table(r"[^|]+% positives[^|]*"), rare()
    assert len(documented) == len({name for name, _ in measured}) >= 4
    for (name, which), runs in measured.items():
        if which == "descending":
            continue
        ((positives, *cells),) = (
            cells for title, cells in documented.items() if title.replace("% positives", "%").startswith(name)
        )
        sums = {key: sum(int(row[key]) for row in runs) for key in ("positives", "predicted", "found")}
        assert positives == f"{sums['positives']:,}"
        place = ["scikit-learn", "hinge", "ours", "flip-flop"].index(which)
        assert cells[place] == f"{sums['found']:,} of {sums['predicted']:,}"


def test_no_ordering_was_better_than_the_recommended_one():
    """By more than twice the standard error of the paired difference."""
    measured = {(row["data"], row["estimator"], row["seed"]): float(row["score"]) for row in rows("sklearn_defaults")}
    for name in {data for data, _, _ in measured}:
        for which in ("flip-flop", "descending"):
            gains = [measured[name, which, str(k)] - measured[name, "ours", str(k)] for k in range(10)]
            assert mean(gains) <= 2 * stdev(gains) / 10**0.5, (name, which)

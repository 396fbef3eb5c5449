"""docs/neural.md says what results/neural_training.csv and results/epoch_diagnostics.csv hold."""

import csv
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "neural.md").read_text()
SCORES = ["gradient norm", "last-layer bound", "logit error", "loss"]


def rows(name, **wanted):
    with (ROOT / "results" / name).open(newline="") as file:
        found = list(csv.DictReader(file))
    return [row for row in found if all(row[column] == value for column, value in wanted.items())]


def table(header):
    """The lines under a header: first cell -> the others."""
    start = DOCUMENT.index(f"| {header} |")
    lines = DOCUMENT[start:].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len({one[0] for one in cells}) == len(cells)
    return {first: others for first, *others in cells}


def test_the_loop():
    expected = {
        row["net"]: [f"{int(row['examples']):,}", row["batch_size"], row["ratio"]]
        for row in rows("neural_training.csv", part="loop")
    }
    assert len(expected) == 4
    assert table("network | examples | batch | ours / plain") == expected
    for row in rows("neural_training.csv", part="loop"):
        assert abs(float(row["seconds"]) / float(row["baseline_seconds"]) - float(row["ratio"])) < 0.02


def test_scoring():
    found = table("network, sort | gradient norm | last-layer bound | logit error | loss")
    measured = rows("neural_training.csv", part="scoring")
    assert len(measured) == len(found) * len(SCORES) == 32
    for row in measured:
        shown = found[f"{row['net']}, {row['sort']}"][SCORES.index(row["score"])]
        assert shown == f"{row['scoring_share']} ({row['ratio']})"


def test_epochs_of_the_paper():
    columns = ("seconds", "wall_seconds")
    assert table("network | images | seconds | by the clock | peak memory, MiB") == {
        row["net"]: [
            f"{int(row['examples']):,}",
            *(row[one] for one in columns),
            f"{int(row['peak_mebibytes']):,}",
        ]
        for row in rows("neural_training.csv", part="paper epoch")
    }


def test_the_machine_is_named():
    (machine,) = {row["machine"] for row in rows("neural_training.csv")}
    (threads,) = {row["threads"] for row in rows("neural_training.csv")}
    assert f"`{machine}`" in DOCUMENT
    assert threads == "1"


def test_tenths_of_epochs():
    found = table("layout, epoch, tenth | score | ink | hard | easy | accuracy")
    for title, cells in found.items():
        way, epoch, tenth = title.split(", ")
        (row,) = rows("epoch_diagnostics.csv", examples="60000", way=way, epoch=epoch, tenth=tenth)
        assert cells == [row[one] for one in ("score", "ink", "hard_loss", "easy_loss", "test_accuracy")]


def test_short_last_batches():
    found = table("5,000 examples, first epoch | last batch | its score | accuracy after 9 tenths | at the end")
    for way, cells in found.items():
        before, after = (
            rows("epoch_diagnostics.csv", examples="5000", way=way, epoch="0", tenth=tenth)[0] for tenth in ("9", "10")
        )
        expected = [after["last_batch"], after["last_score"], before["test_accuracy"], after["test_accuracy"]]
        assert cells == expected

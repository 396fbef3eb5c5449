import csv
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent
DOCUMENT = (ROOT / "docs" / "estimators.md").read_text()
ORDERS = ["random", "descending", "sequential"]


def rows():
    with (ROOT / "results" / "sklearn_epochs.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_is_the_measured_one():
    table = {}
    for line in re.findall(r"^\| `\w+`, [\d,]+ x \d+ \|.*$", DOCUMENT, flags=re.MULTILINE):
        title, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        table[title] = cells
    assert len(table) * len(ORDERS) == len(rows())
    for row in rows():
        microseconds, *ratios = table[f"`{row['loss']}`, {int(row['n']):,} x {row['d']}"]
        assert microseconds == f"{float(row['seconds_sklearn']) * 1e6:,.0f}"
        assert ratios[ORDERS.index(row["order"])] == row["ratio"]
        assert abs(float(row["seconds_ours"]) / float(row["seconds_sklearn"]) - float(row["ratio"])) < 0.02


def test_the_compile_time_is_the_measured_one():
    (seconds,) = {row["compile_seconds"] for row in rows()}
    assert f"compiles the loop, {seconds} s in that run" in " ".join(DOCUMENT.split())

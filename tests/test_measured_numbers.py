"""The numbers that pages copy from `results/` are the measured ones."""

import csv
import re
from pathlib import Path

from test_bad_inputs import EVERY

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def rows_of(name):
    with (ROOT / "results" / name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    return rows


def table_line(text, start):
    (line,) = re.findall(rf"^\| {re.escape(start)} \|.*$", text, flags=re.MULTILINE)
    return [cell.strip(" *") for cell in line.split("|")[2:-1]]


def test_the_cost_of_gradient_norms_is_the_measured_one():
    document = (DOCS / "gradient_norms.md").read_text()
    methods = ["gradorder", "gradorder observe", "torch.func", "opacus ghost", "opacus", "backpack"]
    rows = {(row["workload"], row["layout"], row["method"]): row for row in rows_of("gradient_norm.csv")}
    layouts = ["contiguous", "channels_last"]
    for workload, layout in {key[:2] for key in rows if key[1] in layouts and key[2] == "opacus"}:
        cells = table_line(document, workload + (", channels last" if layout != "contiguous" else ""))
        times = [cells[0], cells[2], *cells[4:]]
        for method, shown in zip(methods, times, strict=True):
            row = rows[workload, layout, method]
            assert shown.split()[0].strip("*") == (row["time_ratio"] or "fails")
            assert ("wrong" in shown) == row["note"].startswith("wrong")
        for method, shown in zip(methods[:2], (cells[1], cells[3]), strict=True):
            assert shown == (rows[workload, layout, method]["memory_ratio"] or "-")


def test_the_cost_of_gradient_norms_without_peers_is_the_measured_one():
    """A table of docs/gradient_norms.md: time and memory of both ways, and the naive loop."""
    measured = [row for row in rows_of("gradient_norm.csv") if row["layout"] == "contiguous"]
    rows = {(row["workload"], row["method"]): row for row in measured}
    document = (DOCS / "gradient_norms.md").read_text()
    for workload in {key[0] for key in rows} - {key[0] for key in rows if key[1] == "opacus"}:
        ours = [rows[workload, method] for method in ("gradorder", "gradorder observe")]
        loop = rows.get((workload, "one at a time"), {"time_ratio": ""})
        shown = [row[column] for row in ours for column in ("time_ratio", "memory_ratio")] + [loop["time_ratio"]]
        assert table_line(document, workload) == [cell or "-" for cell in shown]


def test_the_reliability_table_is_the_measured_one():
    document = (DOCS / "reliability.md").read_text()
    rows = rows_of("reliability.csv")
    for row in rows:
        assert table_line(document, row["what"]) == [f"{int(row['tried']):,}", row["failed"]]
    *always, properties = rows
    assert all(int(row["failed"]) == 0 for row in always)
    assert int(properties["tried"]) >= 100_000
    assert sum(int(row["tried"]) for row in rows if row["what"].endswith("rows lost")) >= 100
    assert f"value: {len(EVERY)} |" in document

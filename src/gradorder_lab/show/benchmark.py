"""The benchmark that comes along, on the page: as a dot plot, and its rows as a table."""

import csv
from dataclasses import dataclass
from pathlib import Path

from gradorder_lab.benchmark.methods import BASELINE
from gradorder_lab.paper.figures import Table
from gradorder_lab.runs import shipped
from gradorder_lab.show.dot_plot import Dot, DotPlot
from gradorder_lab.show.headline import TIME_TO_TARGET, time_to_target_table

_RECOMMENDED = "recommended"
_COST = "time"


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What it found: in a sentence, drawn, and row by row."""

    sentence: str
    plot: DotPlot
    table: Table


def benchmark_for(out: Path) -> Benchmark | None:
    """For the page of this directory: none where it has runs of its own, because the benchmark is not one of them."""
    path = None if shipped.has_runs(out) else shipped.find_file(TIME_TO_TARGET)
    table = time_to_target_table(path)
    if path is None or table is None:
        return None
    plot = DotPlot.of(dots(path))
    return Benchmark(plot.summary_of(_RECOMMENDED), plot, table)


def dots(path: Path) -> list[Dot]:
    """The time of every method but the baseline, task by task."""
    with path.open(newline="", encoding="utf-8") as file:
        return [_dot(line) for line in csv.DictReader(file) if line["method"] != BASELINE]


def _dot(line: dict[str, str]) -> Dot:
    mean, low, high = (line[f"{_COST}_{end}"] for end in ("mean", "low", "high"))
    where = line["task"], line["method"]
    return Dot(*where, float(mean), float(low), float(high)) if mean else Dot(*where, None)

"""The benchmark that comes along, on the page: as a dot plot, and its standings as a table."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import isfinite
from pathlib import Path

from gradorder_lab.benchmark.methods import BASELINE, RECOMMENDED
from gradorder_lab.benchmark.rows import BENCHMARK_RESULTS, read_rows
from gradorder_lab.benchmark.standings import GRADIENTS, Standing, Standings, all_standings, by_saving
from gradorder_lab.paper.figures import Table
from gradorder_lab.runs import shipped
from gradorder_lab.show.dot_plot import Dot, DotPlot
from gradorder_lab.show.standings import HEAD, LEGEND, cells


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What it found: in a sentence, drawn, and row by row."""

    sentence: str
    plot: DotPlot
    table: Table


def benchmark_for(out: Path) -> Benchmark | None:
    """For the page of this directory: none where it has runs of its own, because the benchmark is not one of them."""
    path = None if shipped.has_runs(out) else shipped.find_file(BENCHMARK_RESULTS)
    return None if path is None else _benchmark_in(path, path.stat().st_mtime_ns)


@cache
def _benchmark_in(path: Path, changed: int) -> Benchmark | None:  # noqa: ARG001 - another file after a change
    """Made once for all pages of a process: its intervals take a second."""
    found = all_standings(read_rows(path))
    if not found:
        return None
    plot = DotPlot.of(dots(found))
    return Benchmark(plot.summary_of(RECOMMENDED), plot, _table(found))


def dots(found: Iterable[Standings]) -> list[Dot]:
    """The example gradients of every method but the baseline, task by task."""
    return [_dot(one.task, row) for one in found for row in one.rows if row.method != BASELINE]


def _dot(task: str, row: Standing) -> Dot:
    saved = row.savings[GRADIENTS]
    return Dot(task, row.method, saved.share if isfinite(saved.share) else None, saved.low, saved.high)


def _table(found: Iterable[Standings]) -> Table:
    return Table(
        name="benchmark-table",
        title="Cost to target, by the benchmark",
        caption=LEGEND,
        header=("task", *HEAD),
        rows=tuple((one.task, *cells(row)) for one in found for row in by_saving(one.rows, GRADIENTS)),
        experiment="",
        num_labels=2,
    )

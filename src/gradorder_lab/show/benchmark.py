"""The benchmark that comes along, on the page: its standings as a table, and as a dot plot.

In the plot methods stand down and tasks across; in each cell is a cost, as a multiple of the baseline's, with its
interval. The axis of a cell is logarithmic, from 0 at its left to 100 at its right.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from gradorder_lab.benchmark.curves import Saving
from gradorder_lab.benchmark.methods import BASELINE, RECOMMENDED
from gradorder_lab.benchmark.rows import BENCHMARK_RESULTS, read_rows
from gradorder_lab.benchmark.standings import GRADIENTS, Standings, all_standings, by_saving
from gradorder_lab.paper.experiment import Table
from gradorder_lab.runs import shipped
from gradorder_lab.runs.store import has_runs
from gradorder_lab.show.standings import HEAD, LEGEND, NO_GO, cells, saving_text
from gradorder_lab.training.network import CLOCK

_LEAST, _MOST = 0.25, 4.0  # what is beyond is drawn at the edge


@dataclass(frozen=True)
class Dot:
    """A method's cost on a task, as a share of the baseline's."""

    task: str
    method: str
    saving: Saving

    @property
    def tone(self) -> str:
        """Whether its interval lies below the baseline's cost, above it, or on both sides."""
        if not math.isfinite(self.saving.share):
            return "never"
        return "cheaper" if self.saving.high < 1 else "dearer" if self.saving.low > 1 else "level"

    @property
    def words(self) -> str:
        """As "0.69 (0.67 to 0.70)"."""
        return saving_text(self.saving)


@dataclass(frozen=True)
class DotPlot:
    """Method -> one dot for each task, None where it was not tried; those tried on most tasks first."""

    tasks: tuple[str, ...]
    rows: dict[str, tuple[Dot | None, ...]]

    @classmethod
    def of(cls, dots: Sequence[Dot]) -> "DotPlot":
        """Tasks and methods in the order in which they come."""
        tasks = tuple(dict.fromkeys(dot.task for dot in dots))
        known = {(dot.method, dot.task): dot for dot in dots}
        methods = dict.fromkeys(dot.method for dot in dots)
        rows = {method: tuple(known.get((method, task)) for task in tasks) for method in methods}
        by_tasks_tried = sorted(rows.items(), key=lambda row: row[1].count(None))
        return cls(tasks, dict(by_tasks_tried))

    def summary_of(self, method: str) -> str:
        """What a method came to, in a sentence."""
        tried = [dot for dot in self.rows[method] if dot is not None]
        values = [dot.saving.share for dot in tried if math.isfinite(dot.saving.share)]
        if not values:
            return f"“{method}” did not get there on any of {len(tried)} tasks."
        cheaper, dearer = (sum(dot.tone == tone for dot in tried) for tone in ("cheaper", "dearer"))
        return (
            f"“{method}” got there on {len(values)} of {len(tried)} tasks, for {min(values):.2f} to {max(values):.2f} "
            f"of the cost (median {median(values):.2f}): cheaper beyond noise on {cheaper}, dearer on {dearer}."
        )


def cost_place(cost: float) -> float:
    """Where a cost lies.

    >>> cost_place(1.0), cost_place(0.5), cost_place(100.0)
    (50.0, 25.0, 100.0)
    """
    inside = min(max(cost, _LEAST), _MOST)
    return round(100 * math.log(inside / _LEAST) / math.log(_MOST / _LEAST), 1)


COST_TICKS = {cost: cost_place(cost) for cost in (0.5, 1.0, 2.0)}


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What it found: in a sentence, drawn, and row by row."""

    sentence: str
    plot: DotPlot
    table: Table


def benchmark_for(out: Path) -> Benchmark | None:
    """For the page of this directory: none where it has runs of its own, because the benchmark is not one of them."""
    path = None if has_runs(out) else shipped.find_file(BENCHMARK_RESULTS)
    return None if path is None else _benchmark_in(path, path.stat().st_mtime_ns)


@cache
def _benchmark_in(path: Path, changed: int) -> Benchmark | None:  # noqa: ARG001 - another file after a change
    """Made once for all pages of a process: its intervals take a second."""
    found = all_standings(read_rows(path), costs=(GRADIENTS, CLOCK))
    if not found:
        return None
    plot = DotPlot.of(dots(found))
    return Benchmark(plot.summary_of(RECOMMENDED), plot, _table(found))


def dots(found: Iterable[Standings]) -> list[Dot]:
    """The example gradients of every method but the baseline, task by task."""
    return [
        Dot(one.task, row.method, row.savings[GRADIENTS]) for one in found for row in one.rows if row.method != BASELINE
    ]


def _table(found: Iterable[Standings]) -> Table:
    return Table(
        name="benchmark-table",
        title="Cost to target, by the benchmark",
        caption=f"{LEGEND} {NO_GO}: from rows that do not name their go; same commit and processor name.",
        header=("task", *HEAD),
        rows=tuple((one.task, *cells(row)) for one in found for row in by_saving(one.rows, GRADIENTS)),
        experiment="",
        num_labels=2,
    )

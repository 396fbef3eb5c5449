"""The benchmark that is shipped, on the page: its standings method by method and task by task."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from gradorder_lab.benchmark.curves import Saving
from gradorder_lab.benchmark.measure import ACCURACY
from gradorder_lab.benchmark.rows import BENCHMARK_RESULTS, read_rows
from gradorder_lab.benchmark.standings import GRADIENTS, Standings, all_standings, by_saving
from gradorder_lab.figures import Table
from gradorder_lab.methods import BASELINE, RECOMMENDED
from gradorder_lab.runs import shipped
from gradorder_lab.runs.store import has_runs
from gradorder_lab.show.standings import HEAD, NO_GO, cells, legend, saving_text
from gradorder_lab.training.network import CLOCK


@dataclass(frozen=True)
class Share:
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
class ShareTable:
    """Method -> one share for each task, None where it was not tried; those tried on most tasks first."""

    tasks: tuple[str, ...]
    rows: dict[str, tuple[Share | None, ...]]

    @classmethod
    def of(cls, shares: Sequence[Share]) -> "ShareTable":
        """Tasks and methods in the order in which they come."""
        tasks = tuple(dict.fromkeys(share.task for share in shares))
        known = {(share.method, share.task): share for share in shares}
        methods = dict.fromkeys(share.method for share in shares)
        rows = {method: tuple(known.get((method, task)) for task in tasks) for method in methods}
        return cls(tasks, dict(sorted(rows.items(), key=lambda row: row[1].count(None))))

    def summary_of(self, method: str) -> str:
        """What a method came to, in a sentence."""
        tried = [share for share in self.rows[method] if share is not None]
        values = [share.saving.share for share in tried if math.isfinite(share.saving.share)]
        if not values:
            return f"“{method}” did not get there on any of {len(tried)} tasks."
        cheaper, dearer = (sum(share.tone == tone for share in tried) for tone in ("cheaper", "dearer"))
        return (
            f"“{method}” got there on {len(values)} of {len(tried)} tasks, for {min(values):.2f} to {max(values):.2f} "
            f"of the cost (median {median(values):.2f}): cheaper beyond noise on {cheaper}, dearer on {dearer}."
        )


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What it found: in a sentence, task by task, and row by row."""

    sentence: str
    shares: ShareTable
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
    shares = ShareTable.of(shares_of(found))
    return Benchmark(shares.summary_of(RECOMMENDED), shares, _table(found))


def shares_of(found: Iterable[Standings]) -> list[Share]:
    """The example gradients of every method but the baseline, task by task."""
    return [
        Share(one.task, row.method, row.savings[GRADIENTS])
        for one in found
        for row in one.rows
        if row.method != BASELINE
    ]


def _table(found: Iterable[Standings]) -> Table:
    return Table(
        name="benchmark-table",
        title="Cost to target, by the benchmark",
        caption=f"{legend(ACCURACY)} {NO_GO}: from rows that do not name their go; same commit and processor name.",
        header=("task", *HEAD),
        rows=tuple((one.task, *cells(row)) for one in found for row in by_saving(one.rows, GRADIENTS)),
        experiment="",
        num_labels=2,
    )

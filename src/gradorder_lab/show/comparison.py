"""The page of `gradorder compare`: the user's own task, and nothing but it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf, isfinite, log10
from pathlib import Path

import numpy as np

from gradorder_lab.benchmark.contest import SEARCH_BUDGET, Contest
from gradorder_lab.benchmark.measure import ACCURACY
from gradorder_lab.benchmark.methods import BASELINE
from gradorder_lab.benchmark.own import unmarked
from gradorder_lab.benchmark.rows import BenchmarkRun, searched
from gradorder_lab.benchmark.running import duration
from gradorder_lab.benchmark.standings import Mean, Point, Standing, Standings, by_saving
from gradorder_lab.runs.whole_file import write_whole
from gradorder_lab.show.standings import cells, does_it_pay, head, heading, legend, warnings
from gradorder_lab.show.styles import LineStyle, line_styles
from gradorder_lab.show.writing import own_text, template

COMPARISON_PAGE = "compare.html"

_SVG_DASHES = {
    "solid": "",
    "dash": "7 4",
    "dot": "2 3",
    "dashdot": "7 3 2 3",
    "longdash": "12 4",
    "longdashdot": "12 3 2 3",
}
_ROOM = 0.25
"""Above and below the means, as a share of what they span."""


def write_comparison(contest: Contest, standings: Standings, runs: Sequence[BenchmarkRun], out: Path) -> Path:
    """Write the page into `out`, whole or not at all, and return its path."""
    return write_whole(out / COMPARISON_PAGE, render_comparison(contest, standings, runs))


def render_comparison(contest: Contest, standings: Standings, runs: Sequence[BenchmarkRun]) -> str:
    """The page as HTML: one file that needs no network and no script."""
    measure, rows = standings.measure, by_saving(standings.rows)
    styles = line_styles([[unmarked(row.method) for row in standings.rows]])
    costs = {"example gradients": "share", "processor seconds": "seconds"}
    budgets = sorted({point.budget for row in rows for point in row.curve})
    return template("compare.html.j2").render(
        standings=standings,
        answer=does_it_pay(standings),
        warnings=warnings(standings),
        asking=cost_of_asking(runs),
        heading=heading(standings),
        head=head(measure),
        rows=[cells(row, measure) for row in rows],
        legend=legend(measure),
        plots={name: Plot.of(standings, column, styles) for name, column in costs.items()},
        budgets=budgets,
        at_budgets={unmarked(row.method): _at_budgets(row, budgets, standings) for row in rows},
        tried={unmarked(row.method): _tried(row, runs, standings) for row in rows},
        search_budget=SEARCH_BUDGET,
        settings=_task_settings(contest, runs),
        style=own_text("page.css"),
    )


def cost_of_asking(runs: Sequence[BenchmarkRun]) -> str:
    """What it took to know, in words."""
    num_searches = sum(run.validates for run in runs)
    spent = sum(run.processor_seconds for run in runs)
    plain = [run.processor_seconds for run in runs if run.method == BASELINE and run.budget == 1 and not run.validates]
    return (
        f"To know this took {len(runs)} trainings, {num_searches} to search step sizes and {len(runs) - num_searches} "
        f"that count: {spent / float(np.mean(plain)):.0f} times plain training, {duration(spent)} of processor time."
    )


def _at_budgets(row: Standing, budgets: Sequence[float], standings: Standings) -> list[str]:
    known = {point.budget: point.accuracy for point in row.curve}
    return [_mean_text(known[budget], standings) if budget in known else "–" for budget in budgets]


def _mean_text(mean: Mean, standings: Standings) -> str:
    told = standings.measure.told
    if not isfinite(mean.low):
        return told(mean.mean)
    low, high = sorted((told(mean.low), told(mean.high)), key=lambda text: float(text.removesuffix("%")))
    return f"{told(mean.mean)} ({low.removesuffix('%')} to {high.removesuffix('%')})"


def _tried(row: Standing, runs: Sequence[BenchmarkRun], standings: Standings) -> list[tuple[str, str, bool]]:
    """Every step size with what the held-out part said of it, and whether it was chosen."""
    found = searched(run for run in runs if run.method == row.method)
    means = {size: standings.measure.told(float(np.mean(all_))) for size, all_ in sorted(found.items())}
    return [(f"{size:g}", told, size == row.step_size) for size, told in means.items()]


def _task_settings(contest: Contest, runs: Sequence[BenchmarkRun]) -> dict[str, str]:
    task, first = contest.task, runs[0]
    known = {
        "data": task.data,
        "network": task.model,
        "losses": task.losses or "cross-entropy",
        "epochs of plain training": f"{task.epochs}",
        "batch size": f"{task.batch_size}",
        "optimizer": f"SGD, momentum {task.momentum:g}, step size falling by half a cosine",
        "methods": ", ".join(contest.methods),
        "machine": first.machine,
        "versions": first.versions.strip("{}").replace('"', ""),
    }
    return {name: told for name, told in known.items() if told}


# ---------------------------------------------------------------- the curves


@dataclass(frozen=True)
class Line:
    """A method's curve: places run from 0 to 100, to the right and upwards; `bars` are (x, low, high)."""

    method: str
    style: LineStyle
    dash: str
    points: tuple[tuple[float, float, str], ...]
    bars: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class Plot:
    """Accuracy against one kind of cost: every method's means and intervals, ticks and the target."""

    lines: tuple[Line, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    target: float

    @classmethod
    def of(cls, standings: Standings, column: str, styles: dict[str, LineStyle]) -> "Plot":
        """From the budgets of every method; `column` is a cost of `Point`."""
        points = [point for row in standings.rows for point in row.curve]
        means = [point.accuracy.mean for point in points if isfinite(point.accuracy.mean)]
        span = max(max(means) - min(means), 4 * standings.margin)
        low, high = min(*means, standings.target) - _ROOM * span, max(means) + _ROOM * span
        most = float(max(getattr(point, column) for point in points)) * 1.04

        is_accuracy = standings.measure == ACCURACY

        def x(cost: float) -> float:
            return round(100 * cost / most, 2)

        def y(accuracy: float) -> float:
            return round(100 * (min(max(accuracy, low), high) - low) / (high - low), 2)

        def line(row: Standing) -> Line:
            name = unmarked(row.method)
            told = [(point, x(getattr(point, column)), point.accuracy) for point in row.curve]
            return Line(
                name,
                styles[name],
                _SVG_DASHES[styles[name].dash],
                tuple((place, y(mean.mean), _words(point, standings)) for point, place, mean in told),
                tuple((place, y(mean.low), y(mean.high)) for _, place, mean in told if isfinite(mean.low)),
            )

        return cls(
            tuple(line(row) for row in standings.rows),
            tuple((x(tick), f"{tick:g}") for tick in ticks(0.0, most)),
            tuple((y(tick), f"{tick:g}%" if is_accuracy else f"{-tick:g}") for tick in ticks(low, high)),
            y(standings.target),
        )


def _words(point: Point, standings: Standings) -> str:
    return (
        f"budget {point.budget:g}: {_mean_text(point.accuracy, standings)}, {point.share:.2f} of plain training’s "
        f"gradients, {duration(point.seconds)}"
    )


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, three to seven or so.

    >>> ticks(0.0, 1.04), ticks(87.1, 89.9)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [87.5, 88.0, 88.5, 89.0, 89.5])
    """
    if not 0 < high - low < inf:
        return [low]
    unit = 10.0 ** floor(log10((high - low) / 3))
    step = next(unit * factor for factor in (1, 2, 5, 10) if (high - low) / (unit * factor) <= 7)  # noqa: PLR2004
    first = int(-(-low // step))
    return [round(number * step, 10) for number in range(first, floor(high / step + 1e-9) + 1)]

"""The page of `gradorder compare`: the user's own task, and nothing but it."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import numpy as np

from gradorder_lab.benchmark.contest import SEARCH_BUDGET, Contest
from gradorder_lab.benchmark.measure import ACCURACY
from gradorder_lab.benchmark.rows import BenchmarkRun, searched
from gradorder_lab.benchmark.running import duration
from gradorder_lab.benchmark.standings import Mean, Standing, Standings, by_saving
from gradorder_lab.figures import Curve, Figure, Panel
from gradorder_lab.methods import BASELINE
from gradorder_lab.runs.summary import Band
from gradorder_lab.runs.whole_file import write_whole
from gradorder_lab.show.figure_data import figure_data
from gradorder_lab.show.standings import answers, cells, head, heading, legend, warnings
from gradorder_lab.show.template import page_parts, template
from gradorder_lab.training.own import unmarked

COMPARISON_PAGE = "compare.html"


def write_comparison(contest: Contest, standings: Standings, runs: Sequence[BenchmarkRun], out: Path) -> Path:
    """Write the page into `out`, whole or not at all, and return its path."""
    return write_whole(out / COMPARISON_PAGE, render_comparison(contest, standings, runs))


def render_comparison(contest: Contest, standings: Standings, runs: Sequence[BenchmarkRun]) -> str:
    """The page as HTML: one file that needs no network."""
    measure, rows = standings.measure, by_saving(standings.rows)
    figure = cost_figure(standings)
    budgets = sorted({point.budget for row in rows for point in row.curve})
    return template("compare.html.j2").render(
        standings=standings,
        answers=answers(standings),
        warnings=warnings(standings),
        asking=cost_of_asking(runs),
        heading=heading(standings),
        head=head(measure),
        rows=[cells(row, measure) for row in rows],
        legend=legend(measure),
        figure=figure,
        data=figure_data([figure]),
        budgets=budgets,
        at_budgets={unmarked(row.method): _at_budgets(row, budgets, standings) for row in rows},
        tried={unmarked(row.method): _tried(row, runs, standings) for row in rows},
        search_budget=SEARCH_BUDGET,
        settings=_task_settings(contest, runs),
        **page_parts(),
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
        "optimizer": (f"SGD, momentum {task.momentum:g}" if task.optimizer == "SGD" else task.optimizer)
        + ", step size falling by half a cosine",
        "methods": ", ".join(contest.methods),
        "machine": first.machine,
        "versions": first.versions.strip("{}").replace('"', ""),
    }
    return {name: told for name, told in known.items() if told}


def cost_figure(standings: Standings) -> Figure:
    """Accuracy, or loss, against cost: every method's means and intervals, and the target."""
    measure, most = standings.measure.name, max(point.share for row in standings.rows for point in row.curve)
    seconds = max(point.seconds for row in standings.rows for point in row.curve)
    curves = [_curve(row, standings) for row in standings.rows]
    target = np.full(2, _measured(standings.target, standings))
    ends = {"share": np.array([0.0, most]), "seconds": np.array([0.0, seconds])}
    curves.append(Curve("target", ends, Band(target, target, target), curves[0].num_seeds))
    return Figure(
        name="curves",
        title=f"{measure.capitalize()} against cost",
        caption="A point is the mean over seeds at one budget; the band is the 95% interval (Student's).",
        panels=(Panel(standings.task, tuple(curves)),),
        num_columns=1,
        experiment="",
        y_label=f"{measure}, %" if standings.measure == ACCURACY else measure,
        x_labels={
            "share": "example gradients, as a share of plain training's",
            "seconds": "processor seconds",
        },
        is_log=False,
    )


def _curve(row: Standing, standings: Standings) -> Curve:
    x = {name: np.array([getattr(point, name) for point in row.curve]) for name in ("share", "seconds")}
    ends = [
        sorted(_measured(end if isfinite(end) else mean.mean, standings) for end in (mean.low, mean.high))
        for mean in (point.accuracy for point in row.curve)
    ]
    means = np.array([_measured(point.accuracy.mean, standings) for point in row.curve])
    low, high = np.array(ends).T
    return Curve(unmarked(row.method), x, Band(means, low, high), row.num_seeds)


def _measured(goodness: float, standings: Standings) -> float:
    return goodness if standings.measure == ACCURACY else -goodness

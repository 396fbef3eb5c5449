# ruff: noqa: INP001 - a script: run by path
"""Draw the pictures of README and docs from the results that are committed.

    python scripts/pictures.py                writes docs/pictures/*.svg
    python scripts/pictures.py --out DIR      writes them there

The same results give the same picture: no dates, letters as shapes. On another machine the last decimals of coordinates
may differ, and with them the names of clip paths, which are hashes of coordinates. The ground is white on purpose, so
that they can be read on a dark page.
"""

import argparse
import csv
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from gradorder_lab import paper
from gradorder_lab.benchmark.measure import LOSS
from gradorder_lab.benchmark.referee import EqualCost, Trial, all_trials, judged
from gradorder_lab.benchmark.rows import read_rows
from gradorder_lab.benchmark.standings import Level
from gradorder_lab.benchmark.suites import CONFIRMATION, EVERY, FINE_TUNING, FOUR_OLDER
from gradorder_lab.benchmark.task import Task
from gradorder_lab.judge.claims import Verdict
from gradorder_lab.judge.where import verdict_text
from gradorder_lab.methods import RANDOM_STRATIFIED, RECOMMENDED, REFEREE
from gradorder_lab.paper import orders
from gradorder_lab.runs.shipped import read_table
from gradorder_lab.runs.summary import Summary
from gradorder_lab.show.styles import line_styles

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"

# The page's own colours, src/gradorder_lab/show/templates/page.css.
INK, QUIET, RULE = "#1b1f24", "#59626c", "#dde1e5"
TONES = {
    Verdict.REPRODUCED: "#00664a",
    Verdict.PARTLY: "#7a5200",
    Verdict.INCONCLUSIVE: "#7d3563",
    Verdict.NOT_REPRODUCED: "#a83a00",
}
OUTCOMES = {"holds": "#00855f", "open": "#d9c3d2", "fails": "#d55e00"}
DASHES = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.5))}
STYLE: dict[Any, Any] = {  # matplotlib would have every key spelled out
    "svg.hashsalt": "gradorder",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": RULE,
    "axes.labelcolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


def main() -> None:
    """Draw all of them."""
    parser = argparse.ArgumentParser(description="Draw the pictures of README and docs from the committed results.")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures", metavar="DIR")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name, draw in PICTURES.items():
            draw().savefig(out / f"{name}.svg", metadata={"Date": None, "Creator": None})


def verdicts() -> Figure:
    """How many cells of every claim hold, are open and fail, with the verdict."""
    claims = [claim for claim in paper.claims(_summary()) if claim.judged]
    figure = Figure(figsize=(9.5, 0.8 + 0.34 * len(claims)), layout="constrained")
    axes = figure.subplots()
    places = [-number for number in range(len(claims))]
    left = [0.0] * len(claims)
    for name, colour in OUTCOMES.items():
        shares = [100 * getattr(claim.count, name) / claim.count.judged for claim in claims]
        axes.barh(places, shares, left=left, height=0.62, color=colour, label=name)
        left = [sum(pair) for pair in zip(left, shares, strict=True)]
    for place, claim in zip(places, claims, strict=True):
        axes.text(102, place, verdict_text(claim), va="center", fontsize=9, color=TONES[claim.verdict])
    axes.set_xlim(0, 100)
    axes.set_ylim(-len(claims) + 0.4, 0.6)
    axes.set_yticks(places, [f"{claim.name}  {claim.brief}" for claim in claims])
    axes.tick_params(length=0)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("cells that can say something, %")
    figure.legend(frameon=False, ncols=3, loc="outside upper center")
    return figure


def synthetic() -> Figure:
    """The paper's triple on its synthetic problem: three orders, three kinds of step size."""
    (found,) = orders.order_figures("synthetic", _summary())
    shown = ("descending", "random", "ascending")
    styles = line_styles([shown])
    titles = ("constant step", "per iteration, 1/(1+t)", "per epoch, 1/(1+k)")
    figure = Figure(figsize=(9.5, 3.4), layout="constrained")
    all_axes = figure.subplots(1, 3, sharey=True)
    for axes, panel, title in zip(all_axes, found.panels, titles, strict=False):
        for curve in (curve for curve in panel.curves if curve.label in shown):
            style, x = styles[curve.label], curve.x["epoch"]
            axes.fill_between(x, curve.band.low, curve.band.high, color=style.light, alpha=0.12, linewidth=0)
            axes.plot(x, curve.band.mean, color=style.light, linestyle=DASHES[style.dash], label=curve.label)
        axes.set_yscale("log")
        axes.set_title(title, fontsize=10.5, loc="left")
        axes.set_xlabel("epoch")
        axes.grid(color=RULE, linewidth=0.6)
        axes.tick_params(which="both", length=0)
    all_axes[0].set_ylabel("F − F*, mean; bands: 90% of 100 seeds")
    all_axes[1].legend(frameon=False)
    return figure


def scores() -> Figure:
    """What each score of a batch costs, in plain passes over it."""
    rows = _rows("scores.csv")
    names = [name for name in rows[0] if name != "model"]
    styles = line_styles([names])
    figure = Figure(figsize=(9.5, 3.0), layout="constrained")
    all_axes = figure.subplots(1, len(rows), sharex=True, sharey=True)
    for axes, row in zip(all_axes, rows, strict=True):
        bars = axes.barh(names, [float(row[name]) for name in names], color=[styles[name].light for name in names])
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        axes.bar_label(bars, [row[name] for name in names], padding=5, bbox=ground, zorder=3)
        axes.axvline(1, color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
        axes.set_title(row["model"], fontsize=10.5, loc="left")
        axes.set_xlabel("time, in plain forward and backward passes")
        axes.set_xlim(0, 1.6)
        axes.tick_params(length=0)
        axes.tick_params(axis="y", labelcolor=INK)
    all_axes[0].invert_yaxis()
    return figure


PEERS = {
    "gradorder": ("gradorder", "#d55e00", "o"),
    "gradorder observe": ("gradorder, observe", "#b97a00", "o"),
    "torch.func": ("torch.func", "#0072b2", "s"),
    "opacus ghost": ("Opacus ghost", "#00855f", "^"),
    "opacus": ("Opacus", "#b2558a", "v"),
    "backpack": ("BackPACK", "#1b1f24", "D"),
}


def peers() -> Figure:
    """What exact norms of a batch cost, by each library."""
    rows = [row for row in _rows("gradient_norm.csv") if row["layout"] == "contiguous"]
    compared = {row["workload"] for row in rows if row["method"] == "opacus"}
    rows = [row for row in rows if row["time_ratio"] and row["workload"] in compared]
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.axvline(1, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    for method, (label, colour, marker) in reversed(PEERS.items()):
        places = {row["workload"]: float(row["time_ratio"]) for row in rows if row["method"] == method}
        y = [-workloads.index(workload) for workload in places]
        axes.plot(list(places.values()), y, marker, color=colour, markersize=7, label=label, linestyle="none")
    axes.set_xscale("log")
    ticks = (0.5, 1, 2, 5, 10, 20, 50, 100)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks([-number for number in range(len(workloads))], workloads)
    axes.tick_params(length=0)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("time of all exact norms of a batch, in plain forward and backward passes")
    axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, reverse=True)
    return figure


SHOWN = {RECOMMENDED: ("#0072b2", "o"), RANDOM_STRATIFIED: ("#e69f00", "s")}
"""Method -> colour and marker in README's picture."""


def savings() -> Figure:
    """The default and stratified batches against a shorter run of random reshuffling, on the tasks trained by AdamW."""
    found = [trial for trial in _trials() if trial.method in SHOWN and trial.task.optimizer == "AdamW"]
    tasks = [task for task in CONFIRMATION if any(trial.task == task for trial in found)]
    figure = Figure(figsize=(5.2, 1.3 + 0.42 * len(tasks)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    for trial in found:
        if trial.task in tasks:
            colour, marker = SHOWN[trial.method]
            y = -tasks.index(trial.task) + (0.14 if trial.method == RECOMMENDED else -0.14)
            axes.plot([trial.advantage.low, trial.advantage.high], [y, y], color=colour, linewidth=1.8)
            axes.plot(trial.advantage.mean, y, marker, color=colour, markersize=6)
    for name, (colour, marker) in SHOWN.items():
        axes.plot([], [], marker, color=colour, markersize=6, label=name)
    axes.set_xscale("symlog", linthresh=1)
    ticks = (-10, -3, -1, 0, 1, 3, 10)
    axes.set_xticks(ticks, [f"{tick:+d}" if tick else "0" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(-len(tasks) + 0.4, 0.6)
    axes.set_yticks([-place for place in range(len(tasks))], [_brief(task) for task in tasks])
    axes.tick_params(length=0)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    figure.supxlabel("better than random at equal cost,\npoints of accuracy or % of the loss", fontsize=10, color=QUIET)
    figure.legend(frameon=False, ncols=2, loc="outside upper center", handletextpad=0.1)
    return figure


def _brief(task: Task) -> str:
    return task.name.removesuffix(", AdamW")


ANSWERS = {
    EqualCost.BETTER: ("#00855f", "better than a shorter run"),
    EqualCost.NOT_KNOWN: ("#dfe3e8", "not known"),
    EqualCost.WORSE: ("#d55e00", "worse than a shorter run"),
}


def referee() -> Figure:
    """Every method on every task: its cost, and whether it beats a run of random reshuffling of that cost."""
    trials = _trials()
    tasks = [task for task in EVERY if any(trial.task == task for trial in trials)]
    methods = [name for name in REFEREE if any(trial.method == name for trial in trials)]
    figure = Figure(figsize=(1.9 + 0.95 * len(methods), 1.6 + 0.32 * len(tasks)), layout="constrained")
    axes = figure.subplots()
    for method, judgement in judged(trials).items():
        if method not in methods:
            continue
        for trial in judgement.trials:
            place = methods.index(method), tasks.index(trial.task)
            colour, _ = ANSWERS[judgement.at_equal_cost[trial.task.name]]
            axes.add_patch(Rectangle((place[0] - 0.48, place[1] - 0.46), 0.96, 0.92, color=colour, linewidth=0))
            is_worse = judgement.levels[trial.task.name] == Level.WORSE
            ink = INK if colour == ANSWERS[EqualCost.NOT_KNOWN][0] else "white"
            axes.text(
                *place, f"{trial.cost:.2f}{' ▼' if is_worse else ''}", ha="center", va="center", color=ink, size=8
            )
    axes.set_xlim(-0.5, len(methods) - 0.5)
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.set_xticks(range(len(methods)), [name.replace(" ", "\n") for name in methods], fontsize=8)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(tasks)), [task.name for task in tasks], fontsize=8)
    axes.tick_params(length=0, labelcolor=INK)
    axes.spines[:].set_visible(False)
    for colour, label in ANSWERS.values():
        axes.plot([], [], "s", color=colour, label=label)
    axes.plot([], [], marker="$▼$", linestyle="none", color=INK, label="ends worse than the whole run")
    axes.plot([], [], linestyle="none", label="no cell: it needs classes")
    figure.legend(frameon=False, ncols=3, loc="outside lower center", fontsize=8)
    return figure


def place() -> Figure:
    """Where a reader's own task lies: from what `go.advise` says to the saving, and from the saving to the result."""
    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    saving, result = figure.subplots(1, 2)
    _draw_saving(saving)
    _draw_result(result)
    for axes in (saving, result):
        axes.grid(color=RULE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
    return figure


VARIED = {  # part in the CSV -> label, colour and marker
    "benchmark": ("task of the benchmark", INK, "o"),
    "epochs": ("3 to 80 epochs", "#0072b2", "s"),
    "noisy labels": ("10% to 40% noisy labels", "#cc79a7", "v"),
    "class balance": ("rare classes", "#e69f00", "D"),
}


def _draw_saving(axes: Axes) -> None:
    """Draw the share of the gradients that a run saves, by the share of an epoch that `go.advise` names halfway."""
    rows = _rows("saving.csv")
    for part, (label, colour, marker) in VARIED.items():
        settings: dict[tuple[str, ...], list[dict[str, str]]] = {}
        for row in rows:
            if row["part"] == part:
                settings.setdefault((row["task"], row["epochs"], row["noisy_labels"], row["rarest"]), []).append(row)
        advised = [100 * mean(float(row["skipped_halfway"]) for row in found) for found in settings.values()]
        saved = [100 * mean(1 - float(row["gradients"]) for row in found) for found in settings.values()]
        axes.plot(advised, saved, marker, color=colour, label=label, markersize=5.5, alpha=0.85)
    axes.plot([0, 70], [0, 35], color=QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=0, label="half")
    axes.set_xlim(0, 70)
    axes.set_ylim(0, 40)
    axes.set_xlabel("skipped share by go.advise, halfway through\nplain training, %")
    axes.set_ylabel("gradients that a whole run saved, %")
    axes.legend(frameon=False, fontsize=8.5, loc="upper left")


def _draw_result(axes: Axes) -> None:
    """Draw what the default gains over a shorter run, by the share of the gradients that it saves."""
    found = [trial for trial in _trials() if trial.method == RECOMMENDED]
    axes.axhline(0, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    for kind, (colour, marker) in KINDS.items():
        of_kind = [trial for trial in found if _kind(trial.task) == kind]
        if not of_kind:
            continue
        saved = [100 * (1 - trial.gradients) for trial in of_kind]
        axes.plot(saved, [trial.advantage.mean for trial in of_kind], marker, color=colour, label=kind, markersize=6)
        for x, trial in zip(saved, of_kind, strict=True):
            axes.plot([x, x], [trial.advantage.low, trial.advantage.high], color=colour, linewidth=1, alpha=0.6)
    axes.set_yscale("symlog", linthresh=1)
    ticks = (-10, -3, -1, 0, 1, 3, 10)
    axes.set_yticks(ticks, [f"{tick:+d}" if tick else "0" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(0, 40)
    axes.set_xlabel("gradients that a whole run saved, %")
    axes.set_ylabel("better than random at equal cost,\npoints or % of the loss")
    axes.legend(frameon=False, fontsize=8.5, ncols=2, loc="lower left")


KINDS = {
    "fine-tuning": ("#d55e00", "D"),
    "tables": ("#0072b2", "o"),
    "regression": ("#009e73", "^"),
    "noisy labels": ("#cc79a7", "v"),
    "images from scratch": ("#e69f00", "s"),
}


def _kind(task: Task) -> str:
    """The group of a task in the picture."""
    if task.measure == LOSS:
        return "regression"
    if task.wrong_labels:
        return "noisy labels"
    if task in FINE_TUNING:
        return "fine-tuning"
    return "images from scratch" if task in FOUR_OLDER else "tables"


@cache
def _trials() -> list[Trial]:
    return all_trials(read_rows(RESULTS / "benchmark.parquet"))


VISITS = {  # state in the CSV -> label, fill, edge
    "v": ("visited", "#0072b2", "#0072b2"),
    "r": ("back after a skip", "#d55e00", "#d55e00"),
    "s": ("skipped", "white", "#b8bfc6"),
}


def epochs() -> Figure:
    """The epochs of a small run, one row each: which examples are visited, skipped, and come back."""
    rows = _rows("shrinking_epochs.csv")
    num = len(rows[0]["visits"])
    skips = [sum(row["visits"][example] == "s" for row in rows) for example in range(num)]
    columns = sorted(range(num), key=skips.__getitem__)
    figure = Figure(figsize=NARROW, layout="constrained")
    axes = figure.subplots()
    for state, (label, fill, edge) in VISITS.items():
        found = [(x, y) for y, row in enumerate(rows) for x, each in enumerate(columns) if row["visits"][each] == state]
        xs, ys = zip(*found, strict=True)
        axes.scatter(xs, ys, s=16, color=fill, edgecolors=edge, linewidths=0.8, label=label)
    axes.set_xlim(-1, num)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [row["epoch"] for row in rows])
    axes.set_xticks([])
    axes.set_ylabel("epoch")
    axes.set_xlabel(f"{num} of the training examples, most skipped at the right")
    shares = axes.secondary_yaxis("right")
    shares.set_yticks(range(len(rows)), [f"{float(row['visited_share']):.0%}" for row in rows])
    shares.set_ylabel("visited, of all examples")
    for each in (axes, shares):
        each.tick_params(length=0, labelcolor=INK)
        each.spines[:].set_visible(False)
    figure.legend(frameon=False, ncols=3, loc="outside upper center", columnspacing=0.9, handletextpad=0.1)
    return figure


NARROW = (4.2, 3.9)
"""Inches: as wide as a phone, so that letters keep their size there."""

LOOP = {  # place of the box -> title, text, fill
    (0.0, 1.0): ("scores", "the last loss\nof every example", "#e8f1f8"),
    (1.0, 1.0): ("order", "fitted examples\nskipped, rest shuffled", "#e8f1f8"),
    (1.0, 0.0): ("batches", "stratified,\nfrom the loader", "#e8f1f8"),
    (0.0, 0.0): ("losses", "your training step,\none loss per example", "#fdeee2"),
}
ARROWS = {  # from, to -> the call beside the arrow
    ((0.0, 1.0), (1.0, 1.0)): "run()",
    ((1.0, 1.0), (1.0, 0.0)): "loader",
    ((1.0, 0.0), (0.0, 0.0)): "model",
    ((0.0, 0.0), (0.0, 1.0)): "step(losses)",
}


def loop() -> Figure:
    """The loop: scores, order, batches, losses, and back to scores."""
    figure = Figure(figsize=(NARROW[0], 2.9))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.42, 1.42)
    axes.set_ylim(-0.36, 1.36)
    width, height = 0.72, 0.56
    for (x, y), (title, text, fill) in LOOP.items():
        corner = (x - width / 2, y - height / 2)
        axes.add_patch(
            FancyBboxPatch(corner, width, height, boxstyle="round,pad=0,rounding_size=0.06", fc=fill, ec=RULE)
        )
        axes.text(x, y + 0.15, title, ha="center", va="center", fontsize=11, fontweight="bold")
        axes.text(x, y - 0.08, text, ha="center", va="center", fontsize=8.5, color=QUIET)
    for (start, end), call in ARROWS.items():
        direction = (end[0] - start[0], end[1] - start[1])
        begin, tip = (
            (place[0] + sign * direction[0] * (width / 2 + 0.02), place[1] + sign * direction[1] * (height / 2 + 0.02))
            for place, sign in ((start, 1), (end, -1))
        )
        axes.annotate(
            "", tip, begin, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
        )
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        is_across = direction[1] == 0
        axes.text(
            middle[0] + (0 if is_across else 0.05),
            middle[1] + (0.07 if is_across else 0),
            call,
            ha="center" if is_across else "left",
            va="center",
            fontsize=9,
            family="DejaVu Sans Mono",
        )
    return figure


def _summary() -> Summary:
    return read_table(RESULTS / "lab.parquet")


def _rows(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


PICTURES: Mapping[str, Callable[[], Figure]] = {
    "verdicts": verdicts,
    "synthetic": synthetic,
    "scores": scores,
    "peers": peers,
    "savings": savings,
    "referee": referee,
    "place": place,
    "epochs": epochs,
    "loop": loop,
}

if __name__ == "__main__":
    main()

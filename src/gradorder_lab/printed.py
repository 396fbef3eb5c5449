"""Tables for the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from gradorder_lab import experiments, tables
from gradorder_lab.claims import Claim, Verdict
from gradorder_lab.experiment import Experiment
from gradorder_lab.recipes import side_by_side
from gradorder_lab.summary import RecipeSummary, Summary

_STYLES = {
    Verdict.REPRODUCED: "green",
    Verdict.PARTLY: "yellow",
    Verdict.NOT_REPRODUCED: "red",
    Verdict.INCONCLUSIVE: "magenta",
    Verdict.NOT_TESTED: "dim",
}


_FEW_ROWS = 8
"""Longer tables are for the page."""


def show(console: Console, summary: Summary, asked: Sequence[Experiment]) -> None:
    """What the experiments asked for have shown."""
    if side_by_side.NAME in [experiment.name for experiment in asked]:
        for task in (side_by_side.SYNTHETIC, side_by_side.DIGITS):
            console.print(algorithms(task, summary))
        console.print("Mean ± standard deviation over seeds, the same data and start for every method.\n")
    for one in (one for experiment in asked for one in experiment.tables(summary) if len(one.rows) <= _FEW_ROWS):
        console.print(table(one), Padding(escape(one.caption), (0, 0, 1, 0)), highlight=False)
    names = {name for experiment in asked for name in experiment.claim_names}
    for claim in experiments.claims(summary):
        if claim.name in names:
            show_claim(console, claim)


def table(data: tables.Table) -> Table:
    """A table of the page, for the terminal."""
    shown = Table(title=escape(data.title), title_justify="left", box=None, padding=(0, 1))
    for number, name in enumerate(data.header):
        is_label = number < data.num_labels
        shown.add_column(
            escape(name.replace("accuracy", "acc.")), justify="left" if is_label else "right", no_wrap=is_label
        )
    for row in data.rows:
        shown.add_row(*map(escape, row))
    return shown


def show_claim(console: Console, claim: Claim) -> None:
    """The verdict, then data set by data set: the effect furthest from the claim, its interval, the seeds won."""
    console.print(f"[bold]{claim.name}[/] {_coloured(claim.verdict)}: {claim.text}", highlight=False)
    for data in claim.data:
        text = f"{data}: {_coloured(claim.verdict_on(data))}{_numbers(claim, data)}"
        console.print(Padding(text, (0, 0, 0, 4)), highlight=False)


def _numbers(claim: Claim, data: str) -> str:
    comparison = claim.headline_on(data)
    if comparison is None or comparison.effect is None:
        return ""
    effect = comparison.effect
    interval = escape(f"[{effect.shown(effect.low)}, {effect.shown(effect.high)}]")  # no markup
    return f", {effect.shown(effect.mean)} {interval}, {effect.won:.0%} of {effect.num_seeds} seeds"


def _coloured(verdict: Verdict) -> str:
    return f"[{_STYLES[verdict]}]{verdict}[/]"


def algorithms(task: str, summary: Summary) -> Table:
    """How each of the four algorithms ended on one task, and what it cost."""
    name, metric = task.split(": ")
    shown = Table(title=name, title_justify="left")
    shown.add_column("method", no_wrap=True)
    for column in (metric, "trained on", "scored", "seconds"):
        shown.add_column(column, justify="right")
    for recipe in side_by_side.recipes():
        runs = summary.get(recipe)
        if recipe.task_name == task and runs is not None:
            shown.add_row(recipe.method, *_costs(runs))
    return shown


def _costs(runs: RecipeSummary) -> tuple[str, ...]:
    last = runs.last
    values = last["metric"]
    spread = f" ± {values.std(ddof=1):.2g}" if len(values) > 1 else ""
    counts = (f"{int(last[name][0]):,}" for name in ("trained", "scored"))
    return f"{values.mean():.4g}{spread}", *counts, f"{last['seconds'].mean():.2f}"

"""Tables for the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from gradorder_lab import experiments
from gradorder_lab.claims import Claim, Comparison, Verdict
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


def show(console: Console, summary: Summary, asked: Sequence[Experiment]) -> None:
    """What the experiments asked for have shown."""
    if side_by_side.NAME in [experiment.name for experiment in asked]:
        for task in (side_by_side.SYNTHETIC, side_by_side.DIGITS):
            console.print(algorithms(task, summary))
    names = {name for experiment in asked for name in experiment.claim_names}
    judged = [claim for claim in experiments.claims(summary) if claim.name in names]
    if judged:
        console.print(verdicts(judged))


def verdicts(claims: Sequence[Claim]) -> Table:
    """Every claim with its verdict and its numbers, data set by data set."""
    table = Table(title="Claims of the paper", title_justify="left", show_lines=True)
    table.add_column("claim", max_width=38)
    table.add_column("verdict", no_wrap=True)
    table.add_column("on", no_wrap=True)
    for name in ("effect", "95% interval", "seeds won"):
        table.add_column(name, justify="right", no_wrap=True)
    for claim in claims:
        lines = [_line(claim, data) for data in claim.data]
        cells = ["\n".join(column) for column in zip(*lines, strict=True)]
        table.add_row(f"{claim.name}: {claim.text}", *cells)
    return table


def _line(claim: Claim, data: str) -> tuple[str, ...]:
    verdict = claim.verdict_on(data)
    comparison = claim.headline_on(data)
    shown = f"[{_STYLES[verdict]}]{verdict}[/]"
    if comparison is None or comparison.effect is None:
        return shown, data, "-", "-", "-"
    effect = comparison.effect
    interval = f"{percent(effect.low)} .. {percent(effect.high)}"
    return shown, data, percent(effect.mean), interval, f"{effect.won:.0%} of {effect.num_seeds}"


def percent(value: float) -> str:
    """A share as percent, short at any size."""
    return f"{100 * value:+.3g}%"


def comparisons(found: Sequence[Comparison]) -> Table:
    """Every comparison of a claim."""
    table = Table()
    for name in ("data", "compared", "reading", "outcome", "effect", "95% interval", "won"):
        table.add_column(name)
    for comparison in found:
        effect = comparison.effect
        cells = ("-",) * 4
        if effect is not None:
            interval = f"{percent(effect.low)} .. {percent(effect.high)}"
            cells = (str(comparison.outcome), percent(effect.mean), interval, f"{effect.won:.0%}")
        table.add_row(comparison.data, comparison.what, comparison.reading, *cells)
    return table


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

"""Tables for the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from gradorder_lab import paper
from gradorder_lab.judge.claims import Agreement, Claim, Verdict, agreement
from gradorder_lab.paper.experiment import Experiment
from gradorder_lab.paper.experiment import Table as TableData
from gradorder_lab.runs.recipe import SIZES, Size
from gradorder_lab.runs.summary import Summary

_STYLES = {
    Verdict.REPRODUCED: "green",
    Verdict.PARTLY: "yellow",
    Verdict.NOT_REPRODUCED: "red",
    Verdict.INCONCLUSIVE: "magenta",
    Verdict.NOT_TESTED: "dim",
}


_FEW_ROWS = 8
"""Longer tables are for the page."""


def show(console: Console, summary: Summary, asked: Sequence[Experiment], before: Summary | None = None) -> None:
    """What the experiments asked for have shown here, and apart from it what was run before, if anything was."""
    for one in (one for experiment in asked for one in experiment.tables(summary) if is_short(one)):
        console.print(table(one), Padding(escape(one.caption), (0, 0, 1, 0)), highlight=False)
    names = {name for experiment in asked for name in experiment.claims}
    here = [claim for claim in paper.claims(summary) if claim.name in names]
    console.print("[bold]Run here[/]", highlight=False)
    for claim in here:
        show_claim(console, claim)
    if before is not None:
        console.print()
        console.print(both(here, paper.claims(before)))


def is_short(data: TableData) -> bool:
    """Whether a table is for the terminal: longer ones, and those that only say how it is run, are for the page."""
    return len(data.rows) <= _FEW_ROWS and data.num_labels < len(data.header) and not data.name.endswith("-settings")


def both(here: Sequence[Claim], before: Sequence[Claim]) -> Table:
    """The verdicts of what was just run beside those of the results that come along."""
    known = {claim.name: claim for claim in before}
    shown = Table(title="Run here, and run before (the results that come along)", title_justify="left", box=None)
    for name in ("claim", "here", "seeds", "before", "seeds", "together"):
        shown.add_column(name, justify="right" if name == "seeds" else "left", no_wrap=True)
    for claim in here:
        other = known[claim.name]
        found = agreement(claim.verdict, other.verdict)
        shown.add_row(
            claim.name,
            _short_verdict(claim.verdict),
            str(claim.num_seeds),
            _short_verdict(other.verdict),
            str(other.num_seeds),
            _TOGETHER[found],
        )
    return shown


_TOGETHER = {
    Agreement.AGREES: "[green]they agree[/]",
    Agreement.OPEN: "[dim]one or both cannot say[/]",
    Agreement.DIFFERS: "[red]they differ[/]",
}


def _short_verdict(verdict: Verdict) -> str:
    return _coloured(verdict).replace(" at this size", "")


def table(data: TableData) -> Table:
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
    holds, readings = claim.readings
    counted = f" (holds in {holds} of {readings} readings)" if readings else ""
    console.print(f"[bold]{claim.name}[/] {_coloured(claim.verdict)}{counted}: {claim.text}", highlight=False)
    for data in claim.data:
        untested = claim.untested_on(data)
        why = f"; the first reading does not count: {escape(untested)}" if untested else ""
        text = f"{data}: {_coloured(claim.verdict_on(data))}{_effect_text(claim, data)}{why}"
        console.print(Padding(text, (0, 0, 0, 4)), highlight=False)


def _effect_text(claim: Claim, data: str) -> str:
    comparison = claim.headline_on(data)
    if comparison is None or comparison.effect is None:
        return ""
    effect = comparison.effect
    interval = escape(f"[{effect.shown(effect.low)}, {effect.shown(effect.high)}]")  # no markup
    return f", {effect.shown(effect.mean)} {interval}, {effect.won:.0%} of {effect.num_seeds} seeds"


def _coloured(verdict: Verdict) -> str:
    return f"[{_STYLES[verdict]}]{verdict}[/]"


# ---- `gradorder list` ----


def show_experiments() -> None:
    """Print every experiment with its claims and its number of runs at each size."""
    table = Table(box=None, padding=(0, 1))
    for name in ("experiment", "claims"):
        table.add_column(name, no_wrap=True)
    for size in SIZES:
        table.add_column(size, justify="right", no_wrap=True)
    table.add_column("what")
    for experiment in paper.EXPERIMENTS.values():
        counts = (f"{num_runs(experiment, size):,}" for size in SIZES)
        table.add_row(experiment.name, " ".join(experiment.claims), *counts, experiment.title)
    console = Console()
    console.print(table)
    console.print("The numbers are runs at each size: recipes times paired seeds.")


def num_runs(experiment: Experiment, size: Size) -> int:
    """Recipes times paired seeds."""
    return len(experiment.recipes(size)) * experiment.seeds[size]

"""What the referee found: a table for the terminal, and its numbers as text for other tables."""

from collections.abc import Sequence
from math import isnan

from rich.console import Console
from rich.table import Table

from gradorder_lab.benchmark.measure import ACCURACY
from gradorder_lab.benchmark.referee import Trial
from gradorder_lab.benchmark.standings import Mean
from gradorder_lab.benchmark.task import Task

_LEGEND = (
    "cost: passes of examples, as a share of random reshuffling's; minus random: {unit} more than random reshuffling's "
    "whole run; at equal cost: {unit} more than a run of random reshuffling with the same cost. In brackets: 95% "
    "intervals over paired seeds."
)


def show_trials(console: Console, task: Task, trials: Sequence[Trial]) -> None:
    """Print one line for every method, and what the columns show."""
    seeds = min((len(trial.differences) for trial in trials), default=0)
    table = Table(title=f"{task.name}: {seeds} seeds", box=None, padding=(0, 2, 0, 0), title_justify="left")
    for name in ("method", "cost", "minus random", "at equal cost"):
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for trial in sorted(trials, key=lambda trial: -trial.advantage.mean):
        table.add_row(trial.method, f"{trial.cost:.2f}", points(trial.difference), points(trial.advantage))
    console.print(table)
    console.print(_LEGEND.format(unit=unit_of(task)), highlight=False)


def unit_of(task: Task) -> str:
    """The unit of a difference on this task."""
    return "points" if task.measure == ACCURACY else "percent of the loss"


def points(difference: Mean) -> str:
    """A difference with its interval.

    >>> points(Mean(-0.1, -0.25, 0.05))
    '−0.10 (−0.25 to +0.05)'
    """
    if isnan(difference.mean):
        return "not known"
    return f"{difference.mean:+.2f} ({difference.low:+.2f} to {difference.high:+.2f})".replace("-", "−")

"""What a comparison found, as a table for the terminal; and its numbers as text, for every other table."""

from math import isfinite, isnan

from rich.console import Console
from rich.table import Table

from gradorder_lab.benchmark.curves import Saving
from gradorder_lab.benchmark.measure import ACCURACY, Measure
from gradorder_lab.benchmark.methods import BASELINE
from gradorder_lab.benchmark.standings import CLOCK, GRADIENTS, Difference, Standing, Standings, by_saving

NOT_REACHED = "not reached"
HEAD = ("method", "step", "time to target", "gradients to target", "spent", "accuracy", "minus random", "at half")


def show_standings(console: Console, standings: Standings) -> None:
    """Print it, with one sentence on what it says."""
    table = Table(title=heading(standings), box=None, padding=(0, 1), title_justify="left")
    for name in (standings.measure.name if name == "accuracy" else name for name in HEAD):
        is_name = name == "method"  # never cut; the numbers may take two lines
        table.add_column(name, justify="left" if is_name else "right", no_wrap=is_name)
    for row in by_saving(standings.rows):
        table.add_row(*cells(row, standings.measure))
    console.print(table)
    console.print(LEGEND.replace("accuracy", standings.measure.name), highlight=False)
    console.print(cheapest(standings), highlight=False)


LEGEND = (
    "Time (the processor's) and example gradients to the target over those of random reshuffling, with the 95% "
    "interval over resampled seeds; gradients spent and accuracy at the full budget; accuracy minus that of random "
    "reshuffling, there and with half of plain training's gradients, with the 95% interval over paired seeds."
)


def heading(standings: Standings) -> str:
    """The task, its target and its seeds."""
    numbers = sorted({row.num_seeds for row in standings.rows})
    seeds = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    told, sign = standings.measure.told, "less" if standings.measure == ACCURACY else "plus"
    parts = f"{told(standings.full).removesuffix('%')} {sign} {standings.margin:.3g}"
    target = f"target {told(standings.target)} ({parts})"
    return f"{standings.task}: {target}, {seeds} seeds"


def cells(row: Standing, measure: Measure = ACCURACY) -> list[str]:
    """One method, as `HEAD` says."""
    return [
        row.method,
        f"{row.step_size:g}" + (" (edge)" if row.is_at_edge else ""),
        saving_text(row.savings[CLOCK]),
        saving_text(row.savings[GRADIENTS]),
        f"{row.spent[GRADIENTS]:.2f}",
        measure.told(row.accuracy).removesuffix("%"),
        difference_text(row.difference),
        difference_text(row.at_half),
    ]


def saving_text(saving: Saving) -> str:
    """The share with its interval.

    >>> saving_text(Saving(0.61, 0.55, float("inf")))
    '0.61 (0.55 to not reached)'
    >>> saving_text(Saving(0.2, 0.2, 0.31, is_bound=True, low_is_bound=True))
    '≤0.20 (≤0.20 to 0.31)'
    """
    ends = f"({_share(saving.low, is_bound=saving.low_is_bound)} to {_share(saving.high)})"
    return f"{_share(saving.share, is_bound=saving.is_bound)} {ends}" if isfinite(saving.low) else NOT_REACHED


def _share(share: float, *, is_bound: bool = False) -> str:
    return f"{'≤' if is_bound else ''}{share:.2f}" if isfinite(share) else NOT_REACHED


def difference_text(difference: Difference) -> str:
    """Points with their interval.

    >>> difference_text(Difference(-0.1, -0.25, 0.05))
    '−0.10 (−0.25 to +0.05)'
    """
    if isnan(difference.mean):
        return "–"
    ends = f" ({difference.low:+.2f} to {difference.high:+.2f})" if isfinite(difference.low) else ""
    return f"{difference.mean:+.2f}{ends}".replace("-", "−")


def cheapest(standings: Standings) -> str:
    """Which method was cheapest, in words."""
    best = by_saving(standings.rows)[0]
    time = best.savings[CLOCK]
    if best.method == BASELINE or not time.is_reached:
        return f"No method reached the target for less than {BASELINE}."
    most = "at most " if time.is_bound else ""
    return (
        f"{best.method} reached it in {most}{time.share:.2f} of the time that {BASELINE} takes "
        f"(95% interval {_share(time.low, is_bound=time.low_is_bound)} to {_share(time.high)}, over resampled seeds)."
    )

"""What `gradorder compare` found, as a table for the terminal."""

from rich.console import Console
from rich.table import Table

from gradorder_lab.benchmark.contest import CLOCK, Row, Standings
from gradorder_lab.benchmark.measure import Measure
from gradorder_lab.benchmark.methods import BASELINE

_COLUMNS = ("method", "budget", "time", "gradients")


def show_standings(console: Console, standings: Standings) -> None:
    """Print it, with one sentence on what it says."""
    measure = standings.task.measure
    target = f"target {measure.told(standings.target)}, less its noise {standings.noise:.2g}"
    table = Table(title=f"{standings.task.name}: {target}", box=None, padding=(0, 1), title_justify="left")
    for name in (*_COLUMNS, measure.name, "minus random"):
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for row in sorted(standings.rows, key=_cost):
        table.add_row(*_standing_cells(row, measure))
    console.print(table)
    console.print(
        f"Time and example gradients to the target over those of random reshuffling; {measure.name} at that budget, "
        "and how much better it is than that of random reshuffling at the full one. After ±: half of the 95% interval "
        "over paired seeds.",
        highlight=False,
    )
    console.print(cheapest(standings), highlight=False)


def cheapest(standings: Standings) -> str:
    """Which method was cheapest, in words."""
    best = min(standings.rows, key=_cost)
    if best.ratios is None or best.method == BASELINE:
        return f"No method reached the target for less than {BASELINE}."
    time = best.ratios[CLOCK]
    return (
        f"{best.method} reached it in {time.mean:.2f} of the time that {BASELINE} takes "
        f"(95% interval {time.low:.2f} to {time.high:.2f}, over paired seeds)."
    )


def _cost(row: Row) -> float:
    return float("inf") if row.ratios is None else row.ratios[CLOCK].mean


def _standing_cells(row: Row, measure: Measure) -> list[str]:
    accuracy = [measure.told(row.accuracy), _with_width("+.2g", row.difference)]
    if row.ratios is None:
        return [row.method, "not reached", "-", "-", *accuracy]
    time, gradients = row.ratios[CLOCK], row.ratios["trained"]
    ratios = [_with_width(".2f", (time.mean, time.low, time.high)), f"{gradients.mean:.2f}"]
    return [row.method, f"{row.budget:g}", *ratios, *accuracy]


def _with_width(form: str, values: tuple[float, float, float]) -> str:
    mean, low, high = values
    return f"{mean:{form}} ± {(high - low) / 2:.2g}"

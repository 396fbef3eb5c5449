"""What a comparison found: in one sentence, as a table for the terminal, and its numbers as text for other tables."""

from math import isfinite, isnan

from rich.console import Console
from rich.table import Table

from gradorder_lab.benchmark.curves import FEWEST, Saving
from gradorder_lab.benchmark.measure import ACCURACY, LOSS, Measure
from gradorder_lab.benchmark.methods import BASELINE
from gradorder_lab.benchmark.own import unmarked
from gradorder_lab.benchmark.standings import GRADIENTS, Mean, Standing, Standings, by_saving
from gradorder_lab.training.network import CLOCK

NOT_REACHED = "not reached"
HEAD = ("method", "step", "time to target", "gradients to target", "spent", "accuracy", "minus random", "at half")


_WIDE = 120
_ON_THE_PAGE = {"step", "accuracy", "loss", "at half"}
"""Columns that a narrow terminal has no room for."""


def show_standings(console: Console, standings: Standings) -> None:
    """Print it, with one sentence on what it says."""
    table = Table(title=heading(standings), box=None, padding=(0, 1), title_justify="left")
    names = head(standings.measure)
    shown = [place for place, name in enumerate(names) if console.width >= _WIDE or name not in _ON_THE_PAGE]
    for place in shown:
        is_name = names[place] == "method"  # never cut; the numbers may take two lines
        table.add_column(names[place], justify="left" if is_name else "right", no_wrap=is_name)
    for row in by_saving(standings.rows):
        numbers = cells(row, standings.measure)
        table.add_row(*(numbers[place] for place in shown))
    console.print(table)
    console.print(legend(standings.measure), highlight=False)
    for told in warnings(standings):
        console.print(f"[yellow]{told}[/yellow]", highlight=False)
    console.print(f"[bold]{does_it_pay(standings)}[/bold]", highlight=False)


LEGEND = (
    "Time (the processor's) and example gradients to the target over those of random reshuffling, with the 95% "
    "interval over resampled seeds; gradients spent and accuracy at the full budget; accuracy minus that of random "
    "reshuffling, there and with half of plain training's gradients, with the 95% interval over paired seeds. A time "
    "is unknown where the two were not run in one go (one invocation)."
)
NO_GO = "†"
"""Marks a time of rows that do not name their go: same commit and processor name, but perhaps another host."""


def legend(measure: Measure) -> str:
    """What the columns are."""
    return LEGEND.replace("accuracy", measure.name)


def head(measure: Measure) -> tuple[str, ...]:
    """The columns."""
    return tuple(measure.name if name == "accuracy" else name for name in HEAD)


def heading(standings: Standings) -> str:
    """The task, its target and its seeds."""
    numbers = sorted({row.num_seeds for row in standings.rows})
    seeds = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    told, sign = standings.measure.told, "less" if standings.measure == ACCURACY else "plus"
    parts = f"{told(standings.full).removesuffix('%')} {sign} {standings.margin:.3g}"
    target = f"target {told(standings.target)} ({parts})"
    return f"{standings.task}: {target}, {seeds} seed{'' if seeds == '1' else 's'}"


def cells(row: Standing, measure: Measure = ACCURACY) -> list[str]:
    """One method, as `HEAD` says."""
    return [
        unmarked(row.method),
        f"{row.step_size:g}" + (" (edge)" if row.is_at_edge else ""),
        time_text(row, saving_text(row.savings[CLOCK])),
        saving_text(row.savings[GRADIENTS]),
        f"{row.spent[GRADIENTS]:.2f}",
        measure.told(row.accuracy).removesuffix("%"),
        difference_text(row.difference, measure),
        difference_text(row.at_half, measure),
    ]


def saving_text(saving: Saving) -> str:
    """The share with its interval.

    >>> saving_text(Saving(0.61, 0.55, float("inf")))
    '0.61 (0.55 to not reached)'
    >>> saving_text(Saving(0.2, 0.2, 0.31, is_bound=True, low_is_bound=True))
    '≤0.20 (≤0.20 to 0.31)'
    >>> saving_text(Saving(float("nan"), float("nan"), float("nan")))
    'unknown'
    """
    if isnan(saving.share):
        return "unknown"
    ends = f"({_share(saving.low, is_bound=saving.low_is_bound)} to {_share(saving.high)})"
    return f"{_share(saving.share, is_bound=saving.is_bound)} {ends}" if isfinite(saving.low) else NOT_REACHED


def time_text(row: Standing, text: str) -> str:
    """A time as text, marked if its rows do not name the go that they were made in."""
    if "nan" in text:
        return "–"
    is_time = row.method != BASELINE and any(letter.isdigit() for letter in text)
    return f"{text}{NO_GO}" if is_time and not row.has_goes else text


def _share(share: float, *, is_bound: bool = False) -> str:
    return f"{'≤' if is_bound else ''}{share:.2f}" if isfinite(share) else NOT_REACHED


def difference_text(difference: Mean, measure: Measure = ACCURACY) -> str:
    """Points, or loss, with their interval; more is better for points, less for the loss.

    >>> difference_text(Mean(-0.1, -0.25, 0.05))
    '−0.10 (−0.25 to +0.05)'
    >>> difference_text(Mean(-0.0012, -0.0251, 0.013), LOSS)
    '+0.0012 (−0.013 to +0.025)'
    """
    if isnan(difference.mean):
        return "–"
    mean, low, high = difference.mean, difference.low, difference.high
    if measure == LOSS:
        mean, low, high = 0.0 - mean, 0.0 - high, 0.0 - low  # no "−0"
    form = "+.2f" if measure == ACCURACY else "+.2g"
    ends = f" ({low:{form}} to {high:{form}})" if isfinite(low) else ""
    return f"{mean:{form}}{ends}".replace("-", "−")


def does_it_pay(standings: Standings) -> str:
    """Does it pay? In one sentence, with its interval.

    Of the methods that are cheaper beyond noise the cheapest is named; where there is none, the cheapest of all.
    """
    rivals = [row for row in by_saving(standings.rows) if row.method != BASELINE]
    if not rivals:
        return f"Nothing was compared with {BASELINE}."
    if isnan(rivals[0].savings[CLOCK].share):
        return f"Not known: {_why_unknown(rivals[0])}"
    best = next((row for row in rivals if row.savings[CLOCK].high < 1), rivals[0])
    time, among = best.savings[CLOCK], f", the cheapest of {len(rivals)}," if len(rivals) > 1 else ""
    if not time.is_reached:
        return _not_reached(best, standings.measure)
    is_sure = best.num_seeds >= FEWEST
    told = (
        f"{unmarked(best.method)}{among} reached the target in {_told(time, is_sure)} of the processor time that "
        f"{BASELINE} takes, with {_told(best.savings[GRADIENTS], is_sure)} of its example gradients"
    )
    if not is_sure:
        return f"Not known: {told}, but {_too_few(best)}"
    if time.high < 1:
        return f"Yes: {told}."
    return f"No: {told}." if time.low > 1 else f"No difference beyond noise: {told}."


def _not_reached(row: Standing, measure: Measure) -> str:
    none, low = "no method reached the target", row.savings[CLOCK].low
    if row.difference.high < 0:
        behind = f"{measure.name} minus its: {difference_text(row.difference, measure)}"
        return f"No: {none}. {unmarked(row.method)}, the nearest, ends behind {BASELINE} beyond noise ({behind})."
    if row.num_seeds < FEWEST:
        return f"Not known: {none}, but {_too_few(row)}"
    if not isfinite(low):
        return f"No: {none}, which {BASELINE} did."
    return (
        f"No difference beyond noise: {none} in the mean over seeds, but {unmarked(row.method)} does in some resamples "
        f"of them, from {_share(low)} of the processor time that {BASELINE} takes on."
    )


def _too_few(row: Standing) -> str:
    seeds = f"{row.num_seeds} seed{'' if row.num_seeds == 1 else 's'}"
    return f"{seeds} cannot tell that from noise. Ask again with --seeds {FEWEST} or more."


def _why_unknown(row: Standing) -> str:
    if isnan(row.savings[GRADIENTS].share):
        return (
            f"{BASELINE} reached the target with the smallest budget already. "
            "Ask again with a smaller --budget, or fewer --epochs."
        )
    return (
        f"{unmarked(row.method)} and {BASELINE} were not run in one go, so their times cannot be compared. "
        "Ask again with another --out."
    )


def _told(saving: Saving, is_sure: bool) -> str:
    most = "at most " if saving.is_bound else ""
    ends = f"{_share(saving.low, is_bound=saving.low_is_bound)} to {_share(saving.high)}"
    return f"{most}{_share(saving.share)}" + (f" (95% interval {ends})" if is_sure else "")


def warnings(standings: Standings) -> list[str]:
    """What no interval of the table holds: seeds that differ too much, and the choice of step sizes."""
    return [told for told in (_noise(standings), _other_step_sizes(standings)) if told]


def _other_step_sizes(standings: Standings) -> str:
    """Where the search found another one than for random reshuffling; nothing where it did not."""
    plain = standings.step_size
    others = [f"{unmarked(row.method)} {row.step_size:g}" for row in standings.rows if row.step_size != plain]
    if not others:
        return ""
    return (
        f"Step sizes differ: {BASELINE} {plain:g}, {', '.join(others)}. Each was the best of its own on the "
        "held-out part; if that is small, by chance. The difference between methods includes the effect of this "
        "choice, its interval does not."
    )


def _noise(standings: Standings) -> str:
    """Where seeds differ too much to see what is looked for; nothing where they do not."""
    if not standings.is_noisy:
        return ""
    is_accuracy = standings.measure == ACCURACY
    by = f"{standings.noise:.1f} points" if is_accuracy else f"{abs(standings.noise / standings.full):.1%} of the loss"
    least = "a point" if is_accuracy else "1%"
    return (
        f"Noisy: {BASELINE} alone differs by {by} from seed to seed (standard deviation), more than {least}. Small "
        "differences cannot be seen. More --seeds, more --epochs or a larger test set make it less."
    )

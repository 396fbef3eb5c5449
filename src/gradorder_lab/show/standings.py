"""What a comparison found: as sentences, as a table for the terminal, and its numbers as text for other tables."""

from collections.abc import Sequence
from math import isfinite, isnan

from rich.console import Console
from rich.table import Table

from gradorder_lab.benchmark.curves import FEWEST, Saving
from gradorder_lab.benchmark.measure import ACCURACY, LOSS, Measure
from gradorder_lab.benchmark.standings import GRADIENTS, Mean, Standing, Standings, by_saving
from gradorder_lab.methods import BASELINE
from gradorder_lab.training.network import CLOCK
from gradorder_lab.training.own import unmarked

NOT_REACHED = "not reached"
COLUMNS = {
    "method": "",
    "step": "the learning rate that the search chose",
    "time to target": "processor time to the target, as a share of random reshuffling's",
    "gradients to target": "example gradients to the target, as a share of random reshuffling's",
    "spent": "example gradients of the full budget, as a share of random reshuffling's",
    "accuracy": "at the full budget",
    "minus random": "accuracy minus random reshuffling's, both at the full budget",
    "at half": "the same, both with half of plain training's gradients",
}
"""Column of the table -> what it shows."""

HEAD = tuple(COLUMNS)
_WIDE = 140
_NARROW = ("method", "time to target", "gradients to target", "minus random")
"""The columns that 80 characters have room for."""


def show_standings(console: Console, standings: Standings) -> None:
    """Print the table, what its columns are, and one sentence for every method."""
    shown = HEAD if console.width >= _WIDE else _NARROW
    names = dict(zip(HEAD, head(standings.measure), strict=True))
    table = Table(title=heading(standings), box=None, padding=(0, 2, 0, 0), title_justify="left")
    for name in shown:
        table.add_column(names[name], justify="left" if name == "method" else "right", no_wrap=name != "method")
    for row in by_saving(standings.rows):
        texts = dict(zip(HEAD, cells(row, standings.measure), strict=True))
        # as short as can be: 80 characters hold three intervals
        table.add_row(*(texts[name].replace(" to ", ", ").replace(f", {NOT_REACHED}", ", ∞") for name in shown))
    console.print(table)
    console.print(legend(standings.measure, shown), highlight=False)
    for told in warnings(standings):
        console.print(f"[yellow]{told}[/yellow]", highlight=False)
    for told in answers(standings):
        console.print(f"[bold]{told}[/bold]", highlight=False)


_INTERVALS = (
    "In brackets: 95% intervals, over resampled seeds for costs, over paired seeds for differences. A time is unknown "
    "if the two methods were not run in one go (one invocation)."
)


def legend(measure: Measure, shown: Sequence[str] = HEAD) -> str:
    """What these columns show."""
    told = "; ".join(f"{name}: {COLUMNS[name]}" for name in shown if COLUMNS[name])
    return f"{told[0].upper()}{told[1:]}. {_INTERVALS}".replace("accuracy", measure.name)


NO_GO = "†"
"""Marks a time of rows that do not name their go: same commit and processor name, but perhaps another host."""


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


def answers(standings: Standings) -> list[str]:
    """Does it pay? One sentence for every method, the cheapest first."""
    rivals = [row for row in by_saving(standings.rows) if row.method != BASELINE]
    return [f"{unmarked(row.method)}: {_answer(row, standings.measure)}" for row in rivals] or [
        f"Nothing was compared with {BASELINE}."
    ]


def _answer(row: Standing, measure: Measure) -> str:
    time, gradients, is_sure = row.savings[CLOCK], row.savings[GRADIENTS], row.num_seeds >= FEWEST
    if isnan(time.share):
        return f"not known: {_why_unknown(row)}"
    if not time.is_reached:
        return _not_reached(row, measure)
    told = (
        f"it reached the target in {_told(time, is_sure)} of the processor time that {BASELINE} takes, with "
        f"{_told(gradients, is_sure)} of its example gradients"
    )
    if not is_sure:
        return f"not known: {told}, but {_too_few(row)}"
    if time.high < 1:
        return f"yes, {told}."
    return f"no, {told}." if time.low > 1 else f"no difference beyond noise: {told}."


def _not_reached(row: Standing, measure: Measure) -> str:
    low, never = row.savings[CLOCK].low, "it did not reach the target"
    if row.difference.high < 0:
        behind = f"{measure.name} minus its: {difference_text(row.difference, measure)}"
        return f"no, {never}, and ends behind {BASELINE} beyond noise ({behind})."
    if row.num_seeds < FEWEST:
        return f"not known: {never}, but {_too_few(row)}"
    if not isfinite(low):
        return f"no, {never}, which {BASELINE} did."
    return (
        f"no difference beyond noise: {never} in the mean over seeds, but does in some resamples of them, from "
        f"{_share(low)} of the processor time that {BASELINE} takes on."
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
    return f"it and {BASELINE} were not run in one go, so their times cannot be compared. Ask again with another --out."


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

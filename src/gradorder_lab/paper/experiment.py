"""An experiment of the paper: what is run, what it is evidence for, and what it shows: figures and tables, as data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gradorder_lab.judge.claims import Claim
from gradorder_lab.runs.recipe import SIZES, Array, Recipe, Size
from gradorder_lab.runs.summary import Band, RecipeSummary, Summary

X_LABELS = {"updates": "updates (example gradients)", "epoch": "epoch", "cost": "example gradients with scoring"}
NEURAL_X_LABELS = {
    "epoch": "epoch",
    "updates": "steps",
    "trained": "example gradients",
    "forward": "forward passes, scoring included",
    "seconds": "seconds, scoring included",
}


@dataclass(frozen=True, eq=False)
class Curve:
    """One method: its band against each of the x-axes on offer."""

    label: str
    x: Mapping[str, Array]
    band: Band
    num_seeds: int


@dataclass(frozen=True, eq=False)
class Panel:
    """Curves on common axes; `missing` names the methods that have not been run."""

    title: str
    curves: tuple[Curve, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Figure:
    """Panels row by row.

    Args:
        name: for links and files.
        title: the paper's name for it, or ours.
        caption: what to look at.
        panels: all rows one after the other.
        num_columns: panels per row.
        y_label: of every panel.
        x_labels: column of the rows -> what to call it; the first is shown at first.
        is_log: whether y starts logarithmic.
        is_against: whether differences from random are shown first, because bands would lie over everything.
        experiment: what fills it.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    num_columns: int
    experiment: str
    y_label: str = "F - F*"
    x_labels: Mapping[str, str] = field(default_factory=lambda: X_LABELS)
    is_log: bool = True
    is_against: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells, as text.

    Args:
        name: for links and files.
        title: of the table.
        caption: what to look at.
        header: one name per column.
        rows: as wide as the header.
        experiment: what fills it.
        num_labels: how many columns from the left are words; the others are numbers.
    """

    name: str
    title: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    experiment: str
    num_labels: int = 1


@dataclass(frozen=True, eq=False)
class Experiment:
    """One line of `gradorder list`.

    Args:
        name: as on the command line.
        title: what it is.
        recipes: everything to run at a size.
        claims: name -> how the claim is judged from what has been run; experiments that share one name it each.
        figures: made from the summary.
        tables: likewise.
        seeds: paired seeds at each size, unless the user says otherwise.
    """

    name: str
    title: str
    recipes: Callable[[Size], Sequence[Recipe]]
    claims: Mapping[str, Callable[[Summary], Claim]]
    figures: Callable[[Summary], list[Figure]]
    tables: Callable[[Summary], list[Table]]
    seeds: Mapping[Size, int]


def largest_size(summary: Summary, recipes: Callable[[Size], Sequence[Recipe]]) -> Size:
    """The largest size of which something has been run; the smallest where nothing has."""
    found = [size for size in SIZES if any(summary.get(recipe) is not None for recipe in recipes(size))]
    return found[-1] if found else SIZES[0]


def panel(
    title: str,
    summary: Summary,
    recipes: Mapping[str, Recipe],
    column: str = "excess",
    *,
    x_labels: Mapping[str, str] = X_LABELS,
    from_epoch: int = 0,
) -> Panel:
    """The curves of the recipes that have been run, by label, from this epoch on, against these x-axes."""
    found = {label: summary.get(recipe) for label, recipe in recipes.items()}
    curves = tuple(
        _curve(label, runs, column, x_labels, from_epoch) for label, runs in found.items() if runs is not None
    )
    return Panel(title, curves, tuple(label for label, runs in found.items() if runs is None))


def _curve(label: str, runs: RecipeSummary, column: str, x_labels: Mapping[str, str], from_epoch: int) -> Curve:
    means = {name: band.mean for name, band in runs.bands.items()}
    means["cost"] = means["updates"] + means["scored"]
    shown, band = means["epoch"] >= from_epoch, runs.bands[column]
    x = {name: means[name][shown] for name in x_labels}
    return Curve(label, x, Band(band.mean[shown], band.low[shown], band.high[shown]), len(runs.seeds))

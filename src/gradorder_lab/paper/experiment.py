"""An experiment of the paper: what is run, what it is evidence for, and what it shows: figures and tables, as data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gradorder_lab.figures import X_LABELS, Curve, Figure, Panel, Table
from gradorder_lab.judge.claims import Claim
from gradorder_lab.runs.recipe import SIZES, Recipe, Size
from gradorder_lab.runs.summary import Band, RecipeSummary, Summary

NEURAL_X_LABELS = {
    "epoch": "epoch",
    "updates": "steps",
    "trained": "example gradients",
    "forward": "forward passes, scoring included",
    "seconds": "seconds, scoring included",
}


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
    name: str = "",
) -> Panel:
    """The curves of the recipes that have been run, by label, from this epoch on, against these x-axes."""
    found = {label: summary.get(recipe) for label, recipe in recipes.items()}
    curves = tuple(
        _curve(label, runs, column, x_labels, from_epoch) for label, runs in found.items() if runs is not None
    )
    return Panel(title, curves, tuple(label for label, runs in found.items() if runs is None), name)


def _curve(label: str, runs: RecipeSummary, column: str, x_labels: Mapping[str, str], from_epoch: int) -> Curve:
    means = {name: band.mean for name, band in runs.bands.items()}
    means["cost"] = means["updates"] + means["scored"]
    shown, band = means["epoch"] >= from_epoch, runs.bands[column]
    x = {name: means[name][shown] for name in x_labels}
    return Curve(label, x, Band(band.mean[shown], band.low[shown], band.high[shown]), len(runs.seeds))

"""An experiment of the paper: what is run, what it shows, what it is evidence for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gradorder_lab.figures import Figure
from gradorder_lab.recipe import Recipe
from gradorder_lab.summary import Summary
from gradorder_lab.tables import Table

Size = Literal["mini", "cpu", "paper"]
SIZES: tuple[Size, ...] = ("mini", "cpu", "paper")


def same_at_every_size(recipes: Callable[[], Sequence[Recipe]]) -> Callable[[Size], Sequence[Recipe]]:
    """For experiments that are small enough to be whole at every size: only the seeds differ."""
    return lambda size: recipes()  # noqa: ARG005


def largest_size(summary: Summary, recipes: Callable[[Size], Sequence[Recipe]]) -> Size:
    """The largest size of which something has been run; the smallest where nothing has."""
    found = [size for size in SIZES if any(summary.get(recipe) is not None for recipe in recipes(size))]
    return found[-1] if found else SIZES[0]


@dataclass(frozen=True, eq=False)
class Experiment:
    """One line of `gradorder list`.

    Args:
        name: as on the command line.
        title: what it is.
        recipes: everything to run at a size.
        seeds: paired seeds at each size, unless the user says otherwise.
        figures: drawn from the summary.
        tables: likewise.
        claim_names: the claims it is evidence for.
    """

    name: str
    title: str
    recipes: Callable[[Size], Sequence[Recipe]]
    seeds: Mapping[Size, int]
    figures: Callable[[Summary], list[Figure]]
    claim_names: tuple[str, ...] = ()
    tables: Callable[[Summary], list[Table]] = lambda _: []

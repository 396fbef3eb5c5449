"""An experiment of the paper: what is run, what it shows, what it is evidence for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gradorder_lab.judge.claims import Claim
from gradorder_lab.paper.figures import Figure, Table
from gradorder_lab.runs.recipe import SIZES, Recipe, Size
from gradorder_lab.runs.summary import Summary

CONVEX_SEEDS: Mapping[Size, int] = {"mini": 10, "cpu": 100, "paper": 100}
FEWER_SEEDS: Mapping[Size, int] = {**CONVEX_SEEDS, "mini": 5}
"""Where five say what a hundred do."""


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
        claims: name -> how the claim is judged from what has been run; experiments that share one name it each.
        figures: drawn from the summary.
        seeds: paired seeds at each size, unless the user says otherwise.
        tables: likewise drawn.
    """

    name: str
    title: str
    recipes: Callable[[Size], Sequence[Recipe]]
    claims: Mapping[str, Callable[[Summary], Claim]]
    figures: Callable[[Summary], list[Figure]]
    seeds: Mapping[Size, int] = field(default_factory=lambda: CONVEX_SEEDS)
    tables: Callable[[Summary], list[Table]] = lambda _: []

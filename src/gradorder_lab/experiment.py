"""An experiment of the paper: what is run, what it shows, what it is evidence for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gradorder_lab.figures import Figure
from gradorder_lab.recipe import Recipe
from gradorder_lab.summary import Summary
from gradorder_lab.tables import Table

Size = Literal["mini", "cpu", "paper"]


@dataclass(frozen=True, eq=False)
class Experiment:
    """One line of `gradorder list`.

    Args:
        name: as on the command line.
        title: what it is.
        recipes: everything to run.
        seeds: paired seeds at each size, unless the user says otherwise.
        figures: drawn from the summary.
        tables: likewise.
        claim_names: the claims it is evidence for.
    """

    name: str
    title: str
    recipes: Callable[[], Sequence[Recipe]]
    seeds: Mapping[Size, int]
    figures: Callable[[Summary], list[Figure]]
    claim_names: tuple[str, ...] = ()
    tables: Callable[[Summary], list[Table]] = lambda _: []

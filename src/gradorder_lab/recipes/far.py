"""Synthetic data with a start far from the optimum. Claim C4."""

from collections.abc import Iterator

from gradorder_lab.claims import Claim, Comparison
from gradorder_lab.comparisons import effect
from gradorder_lab.convex import ORDERINGS, SCHEDULES, ConvexRecipe
from gradorder_lab.figures import Figure, panel
from gradorder_lab.recipes.orders import PER_STEP
from gradorder_lab.summary import Summary

NAME = "synthetic-far"
PROBLEMS = ("far", "far by data")
"""Whose coordinate decides between quartic and quadratic: the iterate's (the primary reading) or the example's."""


def recipe(problem: str, ordering: str, schedule: str) -> ConvexRecipe:
    """25 epochs from (-9, -9)."""
    return ConvexRecipe(NAME, problem, ordering, schedule, points_per_epoch=4)


def recipes() -> list[ConvexRecipe]:
    """Everything to run."""
    return [recipe(problem, o, s) for problem in PROBLEMS for s in SCHEDULES for o in ORDERINGS]


def figures(summary: Summary) -> list[Figure]:
    """The paper's panel is the first; then the other step sizes and the second reading."""
    panels = tuple(
        panel(f"{problem}, {schedule}", summary, {o: recipe(problem, o, schedule) for o in ORDERINGS})
        for problem in PROBLEMS
        for schedule in (*PER_STEP, *(other for other in SCHEDULES if other not in PER_STEP))
    )
    return [
        Figure(
            name=NAME,
            title="Synthetic data, far from the optimum",
            caption="The first panel is the paper's: step decreasing per iteration, start at (-9, -9), quartic where "
            "the iterate's coordinate is negative. The lower half reads it as the example's coordinate.",
            panels=panels,
            num_columns=3,
            experiment=NAME,
        )
    ]


def claim(summary: Summary) -> Claim:
    """C4."""
    return Claim(
        "C4",
        "Far from the optimum random order beats decreasing order.",
        tuple(_comparisons(summary)),
        figures=(NAME,),
    )


def _comparisons(summary: Summary) -> Iterator[Comparison]:
    for problem in PROBLEMS:
        for schedule in PER_STEP:
            random, descending = (recipe(problem, ordering, schedule) for ordering in ("random", "descending"))
            yield Comparison(
                data=NAME,
                what="random - descending",
                reading=f"{problem}, {schedule}",
                is_primary=problem == PROBLEMS[0] and schedule == PER_STEP[0],
                kind="lower",
                effect=effect(summary, random, descending, scale=random),
            )

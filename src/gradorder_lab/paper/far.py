"""Synthetic data with a start far from the optimum. Claim C4."""

from collections.abc import Iterator

from gradorder_lab.figures import Figure
from gradorder_lab.judge.claims import Cell, Claim
from gradorder_lab.judge.effects import effect, not_moved, part_left
from gradorder_lab.paper.convex import FEWER_SEEDS, ORDERINGS, PER_STEP, ConvexRecipe, convex_settings
from gradorder_lab.paper.experiment import Experiment, panel
from gradorder_lab.runs.summary import Summary
from gradorder_lab.training.step_sizes import SCHEDULES

NAME = "synthetic-far"
READINGS = {"far": "quartic by the iterate's coordinate", "far by data": "quartic by the example's coordinate"}
"""Problem -> whose coordinate decides between quartic and quadratic."""


def far_recipe(problem: str, ordering: str, schedule: str) -> ConvexRecipe:
    """25 epochs from (-9, -9)."""
    return ConvexRecipe(NAME, problem, ordering, schedule, points_per_epoch=4)


def far_recipes() -> list[ConvexRecipe]:
    """Everything to run."""
    return [far_recipe(problem, o, s) for problem in READINGS for s in SCHEDULES for o in ORDERINGS]


def far_figures(summary: Summary) -> list[Figure]:
    """The paper's panel is the first; then the other step sizes and the second reading."""
    panels = tuple(
        panel(f"{problem}, {schedule}", summary, {o: far_recipe(problem, o, schedule) for o in ORDERINGS})
        for problem in READINGS
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


def far_from_optimum(summary: Summary) -> Claim:
    """C4."""
    return Claim(
        "C4",
        "Far from the optimum random order beats decreasing order.",
        tuple(_far_from_optimum(summary)),
        brief="Far away: random beats decreasing",
    )


def _far_from_optimum(summary: Summary) -> Iterator[Cell]:
    for problem, reading in READINGS.items():
        for schedule in PER_STEP:
            random, descending = (far_recipe(problem, ordering, schedule) for ordering in ("random", "descending"))
            yield Cell(
                part=(NAME,),
                compared="random - descending",
                reading=(reading, schedule),
                kind="lower",
                effect=effect(summary, random, descending, random=random),
                untested=not_moved(summary, random),
                left=part_left(summary, random),
            )


ENTRIES = (
    Experiment(
        NAME,
        "Synthetic data, start far from the optimum",
        recipes=lambda _: far_recipes(),
        claims={"C4": far_from_optimum},
        figures=far_figures,
        tables=lambda _: [convex_settings(NAME, tuple(READINGS))],
        seeds=FEWER_SEEDS,
    ),
)

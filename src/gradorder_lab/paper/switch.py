"""Synthetic data, random order first, then the order compared. Claim C5."""

from collections.abc import Iterator
from typing import Literal

from gradorder_lab.figures import Figure
from gradorder_lab.judge.claims import Cell, Claim
from gradorder_lab.judge.effects import effect, not_moved, part_left
from gradorder_lab.paper.convex import FEWER_SEEDS, ORDERINGS, PER_STEP, ConvexRecipe, convex_settings
from gradorder_lab.paper.experiment import Experiment, panel
from gradorder_lab.runs.summary import Summary
from gradorder_lab.training.step_sizes import SCHEDULES

NAME = "synthetic-switch"
WARM_UP, EPOCHS = 15, 25

CountFrom = Literal["start", "switch"]
COUNTS: tuple[CountFrom, ...] = ("start", "switch")


def switch_recipe(ordering: str, schedule: str, count_from: CountFrom) -> ConvexRecipe:
    """15 random epochs, then 10 ordered ones."""
    return ConvexRecipe(
        NAME, "synthetic", ordering, schedule, EPOCHS, warm_up=WARM_UP, count_from=count_from, points_per_epoch=4
    )


def switch_recipes() -> list[ConvexRecipe]:
    """Everything to run; a constant step counts nothing."""
    return [
        switch_recipe(ordering, schedule, count_from)
        for schedule in SCHEDULES
        for count_from in (COUNTS if schedule != "constant" else COUNTS[:1])
        for ordering in ORDERINGS
    ]


def switch_figures(summary: Summary) -> list[Figure]:
    """The paper's panel is the first; then the other readings."""
    panels = tuple(
        panel(
            f"{schedule}, t from the {count_from}",
            summary,
            {ordering: switch_recipe(ordering, schedule, count_from) for ordering in ORDERINGS},
        )
        for count_from in COUNTS
        for schedule in PER_STEP
    )
    return [
        Figure(
            name=NAME,
            title="Synthetic data, random for 15 epochs, then ordered",
            caption="All orderings share their random epochs. Top: the step size counts from the start of the run; "
            "bottom: it starts again at the switch.",
            panels=panels,
            num_columns=3,
            experiment=NAME,
        )
    ]


def after_warm_up(summary: Summary) -> Claim:
    """C5."""
    return Claim(
        "C5",
        "After a random warm-up the decreasing order ends lowest.",
        tuple(_after_warm_up(summary)),
        brief="After a warm-up: decreasing lowest",
        note=f"Beside each cell: the share of F − F* that the {WARM_UP} random epochs leave. It excludes nothing.",
    )


def _after_warm_up(summary: Summary) -> Iterator[Cell]:
    for count_from in COUNTS:
        for schedule in PER_STEP:
            for against in ("random", "ascending"):
                ours, theirs, random = (
                    switch_recipe(name, schedule, count_from) for name in ("descending", against, "random")
                )
                yield Cell(
                    part=(NAME,),
                    compared=f"descending - {against}",
                    reading=(schedule, f"t from the {count_from}"),
                    kind="lower",
                    effect=effect(summary, ours, theirs, random=random),
                    untested=not_moved(summary, random),
                    left=part_left(summary, random, WARM_UP),
                )


ENTRIES = (
    Experiment(
        NAME,
        "Synthetic data, random first",
        recipes=lambda _: switch_recipes(),
        claims={"C5": after_warm_up},
        figures=switch_figures,
        tables=lambda _: [convex_settings(NAME, ("synthetic",), f" The first {WARM_UP} epochs are random for all.")],
        seeds=FEWER_SEEDS,
    ),
)

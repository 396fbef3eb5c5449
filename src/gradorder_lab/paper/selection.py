"""Algorithm 2: batches of S, the hardest q of each, after random epochs on all data. Claim C6."""

from collections.abc import Iterator

from gradorder_lab.judge.claims import Claim, Comparison
from gradorder_lab.judge.effects import effect, not_moved, not_near
from gradorder_lab.paper.convex import (
    FEWER_SEEDS,
    PROBLEM_NAMES,
    ConvexRecipe,
    convex_settings,
    is_literal,
    readings_of_data,
)
from gradorder_lab.paper.experiment import Experiment, Figure, Table, panel
from gradorder_lab.paper.switch import EPOCHS, WARM_UP, CountFrom
from gradorder_lab.runs.summary import Summary

NAME = "selection"
BATCH_FRACTIONS = (0.3, 0.6, 0.8)
KEEPS = (0.18, 0.5, 0.8)
SHOWN = (0.8, 0.5)
"""S / n and q / S of the figure in the paper's text: the primary reading."""

STEPS: tuple[tuple[str, CountFrom], ...] = (
    ("1/(1+t)", "start"),
    ("1/(1+t)", "switch"),
    ("1/sqrt(1+t)", "start"),
    ("1/(1+t/n)", "start"),
    ("constant", "start"),
)
SELECTIONS = {"selection, descending": "descending", "selection, random": "random"}
FULL = {"all data, random": "random", "all data, descending": "descending"}


def selection_recipe(
    problem: str, ordering: str, step: tuple[str, CountFrom], cell: tuple[float, float] | None
) -> ConvexRecipe:
    """15 random epochs, then 10 with selection, or without where `cell` is None."""
    schedule, count_from = step
    batch_fraction, keep = cell or (None, 1.0)
    return ConvexRecipe(
        NAME,
        problem,
        ordering,
        schedule,
        EPOCHS,
        warm_up=WARM_UP,
        count_from=count_from,
        batch_fraction=batch_fraction,
        keep=keep,
    )


def grid_cells() -> list[tuple[float, float]]:
    """(S / n, q / S), row by row of the paper's grid."""
    return [(batch_fraction, keep) for batch_fraction in BATCH_FRACTIONS for keep in KEEPS]


def selection_recipes() -> list[ConvexRecipe]:
    """Everything to run."""
    return [
        selection_recipe(problem, ordering, step, cell)
        for problem in PROBLEM_NAMES
        for step in STEPS
        for cell in (None, *grid_cells())
        for ordering in ("random", "descending")
    ]


def selection_figures(summary: Summary) -> list[Figure]:
    """A grid per problem and kind of step."""
    return [_selection_grid(summary, problem, step) for problem in PROBLEM_NAMES for step in (STEPS[0], STEPS[-1])]


def _selection_grid(summary: Summary, problem: str, step: tuple[str, CountFrom]) -> Figure:
    full = {label: selection_recipe(problem, ordering, step, None) for label, ordering in FULL.items()}
    panels = tuple(
        panel(
            f"S = {cell[0]} n, q = {cell[1]} S",
            summary,
            {label: selection_recipe(problem, ordering, step, cell) for label, ordering in SELECTIONS.items()} | full,
        )
        for cell in grid_cells()
    )
    return Figure(
        name=f"{NAME}-{problem.replace(' ', '-')}-{'constant' if step[0] == 'constant' else 'decreasing'}",
        title=f"Data selection, {problem}, step size {step[0]}",
        caption="Rows: batch size S; columns: examples kept of each batch. 15 random epochs on all data, shared by all "
        "methods, then 10 epochs of the method. Against epochs, selection makes fewer updates.",
        panels=panels,
        num_columns=len(KEEPS),
        experiment=NAME,
    )


def hardest_first(summary: Summary) -> Claim:
    """C6."""
    return Claim(
        "C6",
        "Data selection with the decreasing order beats data selection in random order, and beats no selection.",
        tuple(_hardest_first(summary)),
        brief="Selection in decreasing order beats random and none",
        note="Compared after equal epochs, as in the paper. The primary reading is the cell of its main figure, "
        "S = 0.8 n, q = 0.5 S, with the first step size whose random epochs end near the optimum; every other cell "
        "is a further reading.",
    )


def _hardest_first(summary: Summary) -> Iterator[Comparison]:
    for data, problem, place in readings_of_data():
        for number, step in enumerate(STEPS):
            for cell in grid_cells():
                rank = (cell != SHOWN) * 100 + place * len(STEPS) + number
                is_first = is_literal(problem) and step == STEPS[0] and cell == SHOWN
                yield from _against_all(summary, data, problem, step=step, cell=cell, rank=rank, is_first=is_first)


def _against_all(
    summary: Summary,
    data: str,
    problem: str,
    *,
    step: tuple[str, CountFrom],
    cell: tuple[float, float],
    rank: int,
    is_first: bool,
) -> Iterator[Comparison]:
    ours = selection_recipe(problem, "descending", step, cell)
    random_full = selection_recipe(problem, "random", step, None)
    others = {
        "selection in random order": selection_recipe(problem, "random", step, cell),
        "no selection, random": random_full,
        "no selection, descending": selection_recipe(problem, "descending", step, None),
    }
    for name, theirs in others.items():
        yield Comparison(
            data=data,
            what=f"selection in decreasing order - {name}",
            reading=f"{problem}, {step[0]} from the {step[1]}, S = {cell[0]} n, q = {cell[1]} S",
            rank=rank,
            kind="lower",
            effect=effect(summary, ours, theirs, random=random_full),
            untested=not_moved(summary, random_full) or not_near(summary, random_full, WARM_UP),
            first="primary" if is_first else "reading",
        )


def selection_tables(_: Summary) -> list[Table]:
    """How it is run."""
    sizes = (" or ".join(map(str, found)) for found in (BATCH_FRACTIONS, KEEPS))
    also = " The first {} epochs are random, on all data. Then S / n is {}, q / S is {}.".format(WARM_UP, *sizes)
    return [convex_settings(NAME, PROBLEM_NAMES, also)]


ENTRIES = (
    Experiment(
        NAME,
        "Algorithm 2 on all three data sets, 3 x 3 sizes",
        recipes=lambda _: selection_recipes(),
        claims={"C6": hardest_first},
        figures=selection_figures,
        tables=selection_tables,
        seeds=FEWER_SEEDS,
    ),
)

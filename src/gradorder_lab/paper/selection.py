"""Algorithm 2: batches of S, the hardest q of each, after random epochs on all data. Claim C6."""

from collections.abc import Iterator

from gradorder_lab.figures import Figure, Table
from gradorder_lab.judge.claims import Cell, Claim
from gradorder_lab.judge.effects import effect, not_moved, part_left
from gradorder_lab.paper.convex import (
    FEWER_SEEDS,
    PROBLEM_NAMES,
    ConvexRecipe,
    convex_settings,
    numbers_of,
    problems,
)
from gradorder_lab.paper.experiment import Experiment, panel
from gradorder_lab.paper.switch import EPOCHS, WARM_UP, CountFrom
from gradorder_lab.runs.summary import Summary

NAME = "selection"
BATCH_FRACTIONS = (0.3, 0.6, 0.8)
KEEPS = (0.18, 0.5, 0.8)

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


def panel_name(cell: tuple[float, float]) -> str:
    """Of the panel of these sizes."""
    return f"{cell[0]}-{cell[1]}"


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
            name=panel_name(cell),
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
        is_against=True,
    )


def hardest_first(summary: Summary) -> Claim:
    """C6."""
    return Claim(
        "C6",
        "Data selection with the decreasing order beats data selection in random order, and beats no selection.",
        tuple(_hardest_first(summary)),
        brief="Selection: decreasing beats random and none",
        note="Compared after equal epochs, as in the paper. Beside each cell: the share of F − F* that the "
        f"{WARM_UP} random epochs leave. It excludes nothing.",
    )


def _hardest_first(summary: Summary) -> Iterator[Cell]:
    for data, problem in problems():
        for step in STEPS:
            for sizes in grid_cells():
                yield from _against_all(summary, data, problem, step, sizes)


def _against_all(
    summary: Summary, data: str, problem: str, step: tuple[str, CountFrom], sizes: tuple[float, float]
) -> Iterator[Cell]:
    ours = selection_recipe(problem, "descending", step, sizes)
    random_full = selection_recipe(problem, "random", step, None)
    others = {
        "selection in random order": selection_recipe(problem, "random", step, sizes),
        "no selection, random": random_full,
        "no selection, descending": selection_recipe(problem, "descending", step, None),
    }
    for name, theirs in others.items():
        yield Cell(
            part=(data, f"S = {sizes[0]} n", f"q = {sizes[1]} S"),
            compared=f"selection in decreasing order - {name}",
            reading=(numbers_of(problem), step[0], f"t from the {step[1]}"),
            kind="lower",
            effect=effect(summary, ours, theirs, random=random_full),
            untested=not_moved(summary, random_full),
            left=part_left(summary, random_full, WARM_UP),
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

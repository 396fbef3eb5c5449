"""Synthetic, iris and Boston: every ordering with every step size. Claims C1 to C3."""

from collections.abc import Iterator
from functools import partial

from gradorder_lab.figures import Figure, Table
from gradorder_lab.judge.claims import Cell, Claim, ClaimKind, Outcome
from gradorder_lab.judge.effects import Unit, difference_of_effects, effect, not_moved, part_left
from gradorder_lab.paper.convex import (
    CONVEX_SEEDS,
    DATA_SETS,
    ORDERINGS,
    PER_EPOCH,
    PER_STEP,
    ConvexRecipe,
    convex_settings,
    numbers_of,
    problems,
)
from gradorder_lab.paper.experiment import Experiment, panel
from gradorder_lab.runs.recipe import Size
from gradorder_lab.runs.summary import Summary
from gradorder_lab.training.step_sizes import SCHEDULES


def order_recipe(data: str, problem: str, ordering: str, schedule: str, epochs: int = 25) -> ConvexRecipe:
    """Algorithm 1."""
    return ConvexRecipe(data, problem, ordering, schedule, epochs, points_per_epoch=4)


def order_recipes(data: str, _: Size) -> list[ConvexRecipe]:
    """Everything to run on one data set, the same at every size."""
    return [
        order_recipe(data, problem, ordering, schedule, epochs)
        for problem in DATA_SETS[data]
        for schedule in SCHEDULES
        for epochs in ((1, 25) if schedule == "constant" else (25,))
        for ordering in ORDERINGS
    ]


def order_figures(data: str, summary: Summary) -> list[Figure]:
    """The paper's triple (constant, per iteration, per epoch), and the other readings of the step sizes."""
    return [_order_figure(data, problem, summary) for problem in DATA_SETS[data]]


def _order_figure(data: str, problem: str, summary: Summary) -> Figure:
    panels = tuple(
        panel(schedule, summary, {ordering: order_recipe(data, problem, ordering, schedule) for ordering in ORDERINGS})
        for schedule in ("constant", "1/(1+t)", "1/(1+k)", "1/sqrt(1+t)", "1/(1+t/n)", "1/sqrt(1+k)")
    )
    return Figure(
        name=problem.replace(" ", "-"),
        title=f"{problem.capitalize()}: loss against iteration",
        caption="Top row: the paper's triple, step size constant, decreasing per iteration, decreasing per epoch. "
        "Bottom row: the other readings of the decreasing ones.",
        panels=panels,
        num_columns=3,
        experiment=data,
    )


def constant_steps(summary: Summary) -> Claim:
    """C1."""
    return Claim(
        "C1",
        "Constant step: decreasing, increasing and random order end an epoch at about the same loss.",
        tuple(_constant_steps(summary)),
        brief="Constant step: all orders end alike",
        note="On F, the axis that the paper plots, and on F − F*. A cell on F − F* cannot say anything if two "
        f"independent random orders (a shuffle for each epoch, and one for all) are not about the same either. {_ROWS}",
    )


def _constant_steps(summary: Summary) -> Iterator[Cell]:
    for data, problem in problems():
        setting = (data, problem, "constant")
        for ordering in ("descending", "ascending"):
            for epochs, after in ((25, "after 25 epochs"), (1, "after the first epoch")):
                yield _order_cell(summary, setting, (ordering, "random"), "equal", after=after, epochs=epochs)
            yield _order_cell(summary, setting, (ordering, "random"), "equal", after="after 25 epochs", unit="excess")


def decreasing_steps(summary: Summary) -> Claim:
    """C2."""
    cells = [
        _order_cell(summary, (data, problem, schedule), ("descending", against), "lower")
        for data, problem in problems()
        for schedule in PER_STEP
        for against in ("random", "ascending")
    ]
    return Claim(
        "C2",
        "Step decreasing per iteration: decreasing order ends lowest.",
        tuple(cells),
        brief="Step falls per iteration: decreasing lowest",
        note=f"Iris and Boston have one start and fixed data: their seeds differ in the random orders alone. {_ROWS}",
    )


def per_epoch_steps(summary: Summary) -> Claim:
    """C3: both of what the paper says, in its experiments and in its conclusion."""
    return Claim(
        "C3",
        "Step decreasing per epoch: the orders clearly differ on synthetic data, and how varies with the data set.",
        (*_difference_on_synthetic(summary), *_difference_between_data_sets(summary)),
        brief="Step falls per epoch: orders clearly differ",
        note="The claim is a difference, not its direction: the sign of the effect says which order ends lower. It is "
        "judged on F, the axis that the paper plots, and on F − F*.",
    )


def _difference_on_synthetic(summary: Summary) -> Iterator[Cell]:
    for pair in (("descending", "random"), ("ascending", "random"), ("descending", "ascending")):
        for schedule in PER_EPOCH:
            for unit in _AXES:
                yield _order_cell(summary, ("synthetic", "synthetic", schedule), pair, "different", unit=unit)


def _difference_between_data_sets(summary: Summary) -> Iterator[Cell]:
    """Whether the effect of the decreasing order on synthetic data differs from that on the others."""
    for data, problem in problems():
        for schedule in PER_EPOCH if data != "synthetic" else ():
            pairs = [
                [order_recipe(name, kind, ordering, schedule) for ordering in ("descending", "random")]
                for name, kind in (("synthetic", "synthetic"), (data, problem))
            ]
            for unit, axis in _AXES.items():
                yield Cell(
                    part=(f"synthetic against {data}",),
                    compared="(descending - random) on one - on the other",
                    reading=(numbers_of(problem), schedule, axis),
                    kind="different",
                    effect=difference_of_effects(summary, pairs[0], pairs[1], unit),
                    untested=not_moved(summary, pairs[1][1]),
                    left=part_left(summary, pairs[1][1]),
                )


_ROWS = "Boston has 506 rows (the paper says 560)."
_AXES: dict[Unit, str] = {"fall": "on F", "excess": "on F − F*"}


def _order_cell(
    summary: Summary,
    setting: tuple[str, str, str],
    pair: tuple[str, str],
    kind: ClaimKind,
    *,
    after: str = "",
    epochs: int = 25,
    unit: Unit = "fall",
) -> Cell:
    data, problem, schedule = setting
    ours, theirs, random = (order_recipe(data, problem, name, schedule, epochs) for name in (*pair, "random"))
    is_noise_possible = kind == "equal" and unit == "excess"
    last = [after or schedule] if kind == "lower" else [after or schedule, _AXES[unit]]
    return Cell(
        part=(data,),
        compared=" - ".join(pair),
        reading=(numbers_of(problem), *last),
        kind=kind,
        effect=effect(summary, ours, theirs, random=random, unit=unit),
        untested=not_moved(summary, random) or (_noisy(summary, data, problem) if is_noise_possible else ""),
        left=part_left(summary, random),
        name=cell_name(*pair, schedule),
    )


def cell_name(ours: str, theirs: str, schedule: str) -> str:
    """Of the cells that compare these orders, on any data."""
    return f"{ours} - {theirs}, {schedule}"


def _noisy(summary: Summary, data: str, problem: str) -> str:
    """Why "about the same F - F*" cannot be told: two independent random orders do not pass that test; else empty."""
    one, other = (order_recipe(data, problem, name, "constant") for name in ("random", "shuffled once"))
    floor = effect(summary, other, one, random=one, unit="excess")
    if floor is None or Cell((), "", (), "equal", floor).outcome() == Outcome.HOLDS:
        return ""
    return (
        f"two independent random orders differ by {100 * floor.low:+.2g}% to {100 * floor.high:+.2g}% of F − F*, "
        f"not within {floor.margin:.0%}"
    )


def order_tables(data: str, _: Summary) -> list[Table]:
    """How it is run."""
    return [convex_settings(data, DATA_SETS[data])]


ENTRIES = tuple(
    Experiment(
        data,
        f"{title}: every ordering with every step size",
        recipes=partial(order_recipes, data),
        claims={"C1": constant_steps, "C2": decreasing_steps, "C3": per_epoch_steps},
        figures=partial(order_figures, data),
        tables=partial(order_tables, data),
        seeds=CONVEX_SEEDS,
    )
    for data, title in (
        ("synthetic", "32 points in the plane"),
        ("iris", "Linear regression on iris"),
        ("boston", "Linear regression on Boston housing"),
    )
)

"""Synthetic, iris and Boston: every ordering with every step size. Claims C1 to C3."""

from collections.abc import Iterator
from functools import partial
from typing import Literal

from gradorder_lab.judge.claims import Claim, ClaimKind, Comparison, Outcome
from gradorder_lab.judge.effects import Unit, difference_of_effects, effect, not_moved
from gradorder_lab.paper.convex import (
    CONVEX_SEEDS,
    DATA_SETS,
    ORDERINGS,
    PER_EPOCH,
    PER_STEP,
    ConvexRecipe,
    convex_settings,
    is_literal,
    readings_of_data,
)
from gradorder_lab.paper.experiment import Experiment, Figure, Table, panel
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
        brief="Constant step: all orders end about alike",
        note="On F itself, the axis that the paper plots, and as a further reading on F − F*: that says nothing where "
        "two independent random orders differ as much with these seeds (a shuffle for each epoch, and one for all). "
        f"{_ROWS}",
    )


def _constant_steps(summary: Summary) -> Iterator[Comparison]:
    for data, problem, place in readings_of_data():
        for epochs in (25, 1):
            after = f"{problem}, after {epochs} epochs" if epochs > 1 else f"{problem}, after the first epoch"
            for ordering in ("descending", "ascending"):
                yield _order_comparison(
                    summary,
                    (data, problem, "constant"),
                    ordering,
                    kind="equal",
                    reading=after,
                    rank=2 * place + (epochs == 1),
                    epochs=epochs,
                    first="primary" if is_literal(problem) and epochs > 1 else "reading",
                )
        yield from _constant_steps_on_excess(summary, data, problem)


def _constant_steps_on_excess(summary: Summary, data: str, problem: str) -> Iterator[Comparison]:
    one, other = (order_recipe(data, problem, name, "constant") for name in ("random", "shuffled once"))
    floor = effect(summary, other, one, random=one, unit="excess")
    noisy = Comparison(data, "", "", 0, "equal", floor).outcome != Outcome.HOLDS if floor is not None else False
    for ordering in ("descending", "ascending"):
        ours = order_recipe(data, problem, ordering, "constant")
        yield Comparison(
            data,
            f"{ordering} - random",
            f"{problem}, on F − F*",
            _FURTHER,
            "equal",
            effect(summary, ours, one, random=one, unit="excess"),
            not_moved(summary, one) or ("two independent random orders differ as much" if noisy else ""),
            first="none",
        )


def decreasing_steps(summary: Summary) -> Claim:
    """C2."""
    comparisons = [
        _order_comparison(
            summary,
            (data, problem, schedule),
            "descending",
            kind="lower",
            reading=f"{problem}, {schedule}",
            rank=len(PER_STEP) * place + number,
            against=against,
            first="primary" if is_literal(problem) and number == 0 else "reading",
        )
        for data, problem, place in readings_of_data()
        for number, schedule in enumerate(PER_STEP)
        for against in ("random", "ascending")
    ]
    return Claim(
        "C2",
        "Step decreasing per iteration: decreasing order ends lowest.",
        tuple(comparisons),
        brief="Step falling per iteration: decreasing order ends lowest",
        note=f"Iris and Boston have one start and fixed data: their seeds differ in the random orders alone. {_ROWS}",
    )


def per_epoch_steps(summary: Summary) -> Claim:
    """C3: both of what the paper says, in its experiments and in its conclusion."""
    return Claim(
        "C3",
        "Step decreasing per epoch: the orders clearly differ on synthetic data, and how varies with the data set.",
        (*_difference_on_synthetic(summary), *_difference_between_data_sets(summary)),
        brief="Step falling per epoch: the orders clearly differ",
        note="The claim is a difference, not its direction: the sign of the effect says which order ends lower. A "
        "difference has to matter, as in every other claim: on F, the axis that the paper plots; F − F* is a further "
        "reading, on which orders that end within a hundredth of a percent of the fall of F can differ by a factor.",
    )


def _difference_on_synthetic(summary: Summary) -> Iterator[Comparison]:
    for unit, suffix in _UNITS.items():
        for number, schedule in enumerate(PER_EPOCH):
            for ordering, against in (("descending", "random"), ("ascending", "random"), ("descending", "ascending")):
                yield _order_comparison(
                    summary,
                    ("synthetic", "synthetic", schedule),
                    ordering,
                    kind="different",
                    reading=f"synthetic, {schedule}{suffix}",
                    rank=number + (_FURTHER if unit == "excess" else 0),
                    against=against,
                    unit=unit,
                    first="none" if unit == "fall" else "reading" if number else "primary",
                )


def _difference_between_data_sets(summary: Summary) -> Iterator[Comparison]:
    """Whether the effect of the decreasing order on synthetic data differs from that on the others."""
    for data, problem, place in readings_of_data():
        for number, schedule in enumerate(PER_EPOCH if data != "synthetic" else ()):
            pairs = [
                [order_recipe(name, kind, ordering, schedule) for ordering in ("descending", "random")]
                for name, kind in (("synthetic", "synthetic"), (data, problem))
            ]
            for unit, suffix in _UNITS.items():
                is_first = is_literal(problem) and number == 0
                yield Comparison(
                    data="across data sets",
                    what=f"(descending - random) on synthetic - on {problem}",
                    reading=f"{problem}, {schedule}{suffix}",
                    rank=len(PER_EPOCH) * place + number + (_FURTHER if unit == "excess" else 0),
                    kind="different",
                    effect=difference_of_effects(summary, pairs[0], pairs[1], unit),
                    untested=not_moved(summary, pairs[1][1]),
                    first="none" if unit == "fall" else "primary" if is_first else "reading",
                )


_ROWS = "Boston has 506 rows (the paper says 560)."
_UNITS: dict[Unit, str] = {"fall": "", "excess": ", on F − F*"}
_FURTHER = 10
"""Added to the rank of what is a further reading of every other."""


def _order_comparison(
    summary: Summary,
    setting: tuple[str, str, str],
    ordering: str,
    *,
    kind: ClaimKind,
    reading: str,
    rank: int,
    first: Literal["primary", "reading", "none"],
    epochs: int = 25,
    against: str = "random",
    unit: Unit = "fall",
) -> Comparison:
    data, problem, schedule = setting
    ours, theirs, random = (
        order_recipe(data, problem, name, schedule, epochs) for name in (ordering, against, "random")
    )
    found = effect(summary, ours, theirs, random=random, unit=unit)
    return Comparison(
        data, f"{ordering} - {against}", reading, rank, kind, found, not_moved(summary, random), first=first
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

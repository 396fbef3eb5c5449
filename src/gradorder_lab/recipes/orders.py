"""Synthetic, iris and Boston: every ordering with every step size. Claims C1 to C3."""

from collections.abc import Iterator

from gradorder_lab.claims import Claim, Comparison, Kind
from gradorder_lab.comparisons import difference_of_effects, effect
from gradorder_lab.convex import ORDERINGS, SCHEDULES, ConvexRecipe
from gradorder_lab.figures import Figure, panel
from gradorder_lab.summary import Summary

DATA_SETS = {
    "synthetic": ("synthetic",),
    "iris": ("iris literal", "iris scaled"),
    "boston": ("boston literal", "boston scaled"),
}
"""data set -> its problems, the primary reading first."""

PER_STEP = ("1/(1+t)", "1/sqrt(1+t)", "1/(1+t/n)")
PER_EPOCH = ("1/(1+k)", "1/sqrt(1+k)")


def recipe(data: str, problem: str, ordering: str, schedule: str, epochs: int = 25) -> ConvexRecipe:
    """Algorithm 1."""
    return ConvexRecipe(data, problem, ordering, schedule, epochs, points_per_epoch=4)


def recipes(data: str) -> list[ConvexRecipe]:
    """Everything to run on one data set."""
    return [
        recipe(data, problem, ordering, schedule, epochs)
        for problem in DATA_SETS[data]
        for schedule in SCHEDULES
        for epochs in ((1, 25) if schedule == "constant" else (25,))
        for ordering in ORDERINGS
    ]


def figures(data: str, summary: Summary) -> list[Figure]:
    """The paper's triple (constant, per iteration, per epoch), and the other readings of the step sizes."""
    return [_figure(data, problem, summary) for problem in DATA_SETS[data]]


def _figure(data: str, problem: str, summary: Summary) -> Figure:
    panels = tuple(
        panel(schedule, summary, {ordering: recipe(data, problem, ordering, schedule) for ordering in ORDERINGS})
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
        figures=("synthetic", "iris-literal", "iris-scaled", "boston-literal", "boston-scaled"),
    )


def _constant_steps(summary: Summary) -> Iterator[Comparison]:
    for data, problem, is_literal in _problems():
        for epochs in (25, 1):
            for ordering in ("descending", "ascending"):
                is_primary = is_literal and epochs > 1
                reading = f"{problem}, after {epochs} epochs" if epochs > 1 else f"{problem}, after the first epoch"
                setting = (data, problem, "constant")
                yield _compared(
                    summary, setting, ordering, kind="equal", reading=reading, is_primary=is_primary, epochs=epochs
                )


def decreasing_steps(summary: Summary) -> Claim:
    """C2."""
    comparisons = [
        _compared(
            summary,
            (data, problem, schedule),
            "descending",
            kind="lower",
            reading=f"{problem}, {schedule}",
            is_primary=is_literal and schedule == PER_STEP[0],
            against=against,
        )
        for data, problem, is_literal in _problems()
        for schedule in PER_STEP
        for against in ("random", "ascending")
    ]
    return Claim(
        "C2",
        "Step decreasing per iteration: decreasing order ends lowest.",
        tuple(comparisons),
        figures=("synthetic", "iris-literal", "iris-scaled", "boston-literal", "boston-scaled"),
        note="Iris and Boston have one start and fixed data: their seeds differ in the random orders alone.",
    )


def per_epoch_steps(summary: Summary) -> Claim:
    """C3: both of what the paper says, in its experiments and in its conclusion."""
    return Claim(
        "C3",
        "Step decreasing per epoch: the orders clearly differ on synthetic data, and how varies with the data set.",
        (*_difference_on_synthetic(summary), *_difference_between_data_sets(summary)),
        figures=("synthetic", "iris-literal", "iris-scaled", "boston-literal", "boston-scaled"),
        note="The claim is a difference, not its direction: the sign of the effect says which order ends lower.",
    )


def _difference_on_synthetic(summary: Summary) -> Iterator[Comparison]:
    for schedule in PER_EPOCH:
        for ordering, against in (("descending", "random"), ("ascending", "random"), ("descending", "ascending")):
            yield _compared(
                summary,
                ("synthetic", "synthetic", schedule),
                ordering,
                kind="different",
                reading=f"synthetic, {schedule}",
                is_primary=schedule == PER_EPOCH[0],
                against=against,
            )


def _difference_between_data_sets(summary: Summary) -> Iterator[Comparison]:
    """Whether the effect of the decreasing order on synthetic data differs from that on the others."""
    for data, problem, is_literal in _problems():
        for schedule in PER_EPOCH if data != "synthetic" else ():
            pairs = [
                [recipe(name, kind, ordering, schedule) for ordering in ("descending", "random")]
                for name, kind in (("synthetic", "synthetic"), (data, problem))
            ]
            yield Comparison(
                data="across data sets",
                what=f"(descending - random) on synthetic - on {problem}",
                reading=schedule,
                is_primary=is_literal and schedule == PER_EPOCH[0],
                kind="different",
                effect=difference_of_effects(summary, *pairs),
            )


def _problems() -> Iterator[tuple[str, str, bool]]:
    """Data set, problem, whether it has the paper's own numbers."""
    for data, problems in DATA_SETS.items():
        for number, problem in enumerate(problems):
            yield data, problem, number == 0


def _compared(
    summary: Summary,
    setting: tuple[str, str, str],
    ordering: str,
    *,
    kind: Kind,
    reading: str,
    is_primary: bool,
    epochs: int = 25,
    against: str = "random",
) -> Comparison:
    data, problem, schedule = setting
    ours, theirs, random = (recipe(data, problem, name, schedule, epochs) for name in (ordering, against, "random"))
    found = effect(summary, ours, theirs, scale=random)
    return Comparison(data, f"{ordering} - {against}", reading, is_primary, kind, found)

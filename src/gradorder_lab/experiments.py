"""Everything that can be reproduced, in the paper's order."""

from collections.abc import Iterable
from functools import partial

from gradorder_lab.claims import Claim
from gradorder_lab.errors import LabError
from gradorder_lab.experiment import Experiment, Size
from gradorder_lab.recipe import Recipe
from gradorder_lab.recipes import bounds, far, orders, selection, side_by_side, switch
from gradorder_lab.summary import Summary

_CONVEX_SEEDS: dict[Size, int] = {"mini": 10, "cpu": 100, "paper": 100}

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            side_by_side.NAME,
            "Algorithms 1 to 4 beside random reshuffling, by the library's own sampler",
            side_by_side.recipes,
            {"mini": 5, "cpu": 10, "paper": 10},
            side_by_side.figures,
            (),
        ),
        *(
            Experiment(
                data,
                f"{title}: every ordering with every step size",
                partial(orders.recipes, data),
                _CONVEX_SEEDS,
                partial(orders.figures, data),
                ("C1", "C2", "C3"),
            )
            for data, title in (
                ("synthetic", "32 points in the plane"),
                ("iris", "Linear regression on iris"),
                ("boston", "Linear regression on Boston housing"),
            )
        ),
        Experiment(
            far.NAME, "Synthetic data, start far from the optimum", far.recipes, _CONVEX_SEEDS, far.figures, ("C4",)
        ),
        Experiment(switch.NAME, "Synthetic data, random first", switch.recipes, _CONVEX_SEEDS, switch.figures, ("C5",)),
        Experiment(
            selection.NAME,
            "Algorithm 2 on all three data sets, 3 x 3 sizes",
            selection.recipes,
            _CONVEX_SEEDS,
            selection.figures,
            ("C6",),
        ),
        Experiment(
            bounds.NAME,
            "Theorems 1 to 4 beside what is measured",
            bounds.recipes,
            _CONVEX_SEEDS,
            lambda _: [],
            ("C12",),
            bounds.tables,
        ),
    )
}


def chosen(names: Iterable[str]) -> list[Experiment]:
    """The experiments with these names; all of them for none."""
    names = list(names)
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise LabError(f"EXPERIMENT must be one of {', '.join(EXPERIMENTS)}, got {unknown[0]!r}")
    return [EXPERIMENTS[name] for name in dict.fromkeys(names)] or list(EXPERIMENTS.values())


def all_recipes() -> list[Recipe]:
    """The recipes of every experiment."""
    return [recipe for experiment in EXPERIMENTS.values() for recipe in experiment.recipes()]


def claims(summary: Summary) -> list[Claim]:
    """Every claim, judged from what has been run."""
    return [
        orders.constant_steps(summary),
        orders.decreasing_steps(summary),
        orders.per_epoch_steps(summary),
        far.claim(summary),
        switch.claim(summary),
        selection.claim(summary),
        bounds.claim(summary),
    ]

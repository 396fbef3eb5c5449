"""Everything that can be reproduced, in the paper's order."""

from collections.abc import Iterable
from functools import partial

from gradorder_lab.claims import Claim
from gradorder_lab.errors import LabError
from gradorder_lab.experiment import SIZES, Experiment, Size, same_at_every_size
from gradorder_lab.recipe import Recipe
from gradorder_lab.recipes import bounds, cifar, far, grey_images, orders, selection, side_by_side, switch
from gradorder_lab.summary import Summary, identity

_CONVEX_SEEDS: dict[Size, int] = {"mini": 10, "cpu": 100, "paper": 100}

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            side_by_side.NAME,
            "Algorithms 1 to 4 beside random reshuffling, by the library's own sampler",
            same_at_every_size(side_by_side.recipes),
            {"mini": 5, "cpu": 10, "paper": 10},
            side_by_side.figures,
            (),
        ),
        *(
            Experiment(
                data,
                f"{title}: every ordering with every step size",
                same_at_every_size(partial(orders.recipes, data)),
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
            far.NAME,
            "Synthetic data, start far from the optimum",
            same_at_every_size(far.recipes),
            _CONVEX_SEEDS,
            far.figures,
            ("C4",),
        ),
        Experiment(
            switch.NAME,
            "Synthetic data, random first",
            same_at_every_size(switch.recipes),
            _CONVEX_SEEDS,
            switch.figures,
            ("C5",),
        ),
        Experiment(
            selection.NAME,
            "Algorithm 2 on all three data sets, 3 x 3 sizes",
            same_at_every_size(selection.recipes),
            _CONVEX_SEEDS,
            selection.figures,
            ("C6",),
        ),
        *(
            Experiment(
                data,
                f"{title}: two nets, two batch sizes, every method",
                partial(grey_images.recipes, data),
                {"mini": 2, "cpu": 3, "paper": 5},
                partial(grey_images.figures, data),
                (grey_images.CLAIMS[data],),
            )
            for data, title in grey_images.TITLES.items()
        ),
        *(
            Experiment(
                data,
                f"{title}: a residual network, ordered late and early",
                partial(cifar.recipes, data),
                {"mini": 2, "cpu": 3, "paper": 3},
                partial(cifar.figures, data),
                (cifar.CLAIMS[data], "C11", "C13"),
                partial(cifar.tables, data),
            )
            for data, title in cifar.TITLES.items()
        ),
        Experiment(
            bounds.NAME,
            "Theorems 1 to 4 beside what is measured",
            same_at_every_size(bounds.recipes),
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
    """The recipes of every experiment at every size."""
    found = {
        identity(recipe): recipe
        for experiment in EXPERIMENTS.values()
        for size in SIZES
        for recipe in experiment.recipes(size)
    }
    return list(found.values())


def claims(summary: Summary) -> list[Claim]:
    """Every claim, judged from what has been run."""
    return [
        orders.constant_steps(summary),
        orders.decreasing_steps(summary),
        orders.per_epoch_steps(summary),
        far.claim(summary),
        switch.claim(summary),
        selection.claim(summary),
        *(grey_images.claim(data, summary) for data in grey_images.TITLES),
        *(cifar.late_start(data, summary) for data in cifar.TITLES),
        cifar.early_start(summary),
        bounds.claim(summary),
        cifar.best_start(summary),
    ]

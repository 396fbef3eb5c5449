"""Algorithms 1 to 4 side by side with random reshuffling, on data that needs no download.

Algorithms 1 and 2 (one update per example) on the paper's synthetic problem, 3 and 4 (mini-batches) on
handwritten digits with a small network.
"""

import gradorder as go
from gradorder_lab.datasets import digits
from gradorder_lab.figures import Curve, Figure, Panel
from gradorder_lab.problems import points
from gradorder_lab.summary import Summary
from gradorder_lab.training import TrainingRecipe

NAME = "algorithms"
SYNTHETIC = "synthetic: F - F*"
DIGITS = "digits: accuracy (%)"
RANDOM = "random reshuffling"

_EPOCHS = 25
_DIGITS_EPOCHS = 20
_LATE = 14  # 0.7 of the run, as the paper's 140 of 200


def recipes() -> list[TrainingRecipe]:
    """The methods, task by task."""
    return [*_synthetic(), *_digits()]


def _synthetic() -> list[TrainingRecipe]:
    num_points = points.NUM_POINTS

    def recipe(method: str, batch_size: int = 1, **settings: object) -> TrainingRecipe:
        return TrainingRecipe(
            experiment=NAME,
            task_name=SYNTHETIC,
            task=points.task,
            method=method,
            batch_size=batch_size,
            schedule=go.InversePerStep(1e-4, scale=num_points),
            epochs=_EPOCHS,
            one_at_a_time=True,
            **settings,  # type: ignore[arg-type]
        )

    return [
        recipe(RANDOM),
        recipe("Algorithm 1: all data sorted", ordering=go.Descending()),
        recipe("Algorithm 2: q = 8 of S = 16", batch_size=16, keep_in_batch=0.5),
    ]


def _digits() -> list[TrainingRecipe]:
    def recipe(method: str, **settings: object) -> TrainingRecipe:
        return TrainingRecipe(
            experiment=NAME,
            task_name=DIGITS,
            task=digits.task,
            method=method,
            batch_size=32,
            schedule=go.InversePerStep(0.5, scale=41),  # halved after the first epoch of 41 steps
            epochs=_DIGITS_EPOCHS,
            **settings,  # type: ignore[arg-type]
        )

    return [
        recipe(RANDOM),
        recipe("Algorithm 3: sort first", ordering=go.Descending(), balanced=True),
        recipe(
            f"Algorithm 3: from epoch {_LATE}",
            ordering=go.Descending(),
            balanced=True,
            start_epoch=_LATE,
        ),
        recipe("Algorithm 3: dealt", ordering=go.Descending(), balanced=True, layout="dealt"),
        recipe("Algorithm 4: q = 16 of S = 32", keep_in_batch=0.5),
    ]


def figures(summary: Summary) -> list[Figure]:
    """Both tasks against the example gradients spent."""
    panels = tuple(_panel(task, summary) for task in (SYNTHETIC, DIGITS))
    return [
        Figure(
            name=NAME,
            title="The four algorithms beside random reshuffling",
            caption="Algorithms 1 and 2 on the synthetic problem, 3 and 4 on handwritten digits with a small network.",
            panels=panels,
            num_columns=2,
            experiment=NAME,
            y_label="",
            x_labels={
                "updates": "example gradients used for updates",
                "cost": "the same with scoring",
                "epoch": "epoch",
                "seconds": "seconds, scoring included",
            },
            is_log=False,
        )
    ]


def _panel(task: str, summary: Summary) -> Panel:
    found = {recipe.method: summary.get(recipe) for recipe in recipes() if recipe.task_name == task}
    curves = []
    for method, runs in found.items():
        if runs is not None:
            means = {name: band.mean for name, band in runs.bands.items()}
            x = {"updates": means["trained"], "cost": means["trained"] + means["scored"]}
            x |= {name: means[name] for name in ("epoch", "seconds")}
            curves.append(Curve(method, x, runs.bands["metric"], len(runs.seeds)))
    return Panel(task, tuple(curves), tuple(method for method, runs in found.items() if runs is None))

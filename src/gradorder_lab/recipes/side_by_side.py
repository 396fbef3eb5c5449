"""Algorithms 1 to 4 side by side with random reshuffling, on data that needs no download.

Algorithms 1 and 2 (one update per example) on the paper's synthetic problem, 3 and 4 (mini-batches) on
handwritten digits with a small network.
"""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import gradorder as go
from gradorder_lab.datasets import digits
from gradorder_lab.problems import synthetic
from gradorder_lab.recipe import Recipe
from gradorder_lab.run import Row

SYNTHETIC = "synthetic: F - F*"
DIGITS = "digits: accuracy (%)"
RANDOM = "random reshuffling"

_EPOCHS = 25
_DIGITS_EPOCHS = 20
_LATE = 14  # 0.7 of the run, as the paper's 140 of 200


def recipes() -> list[Recipe]:
    """The methods, task by task."""
    return [*_synthetic(), *_digits()]


def _synthetic() -> list[Recipe]:
    num_points = synthetic.NUM_POINTS

    def recipe(method: str, batch_size: int = 1, **settings: object) -> Recipe:
        return Recipe(
            task_name=SYNTHETIC,
            task=synthetic.task,
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


def _digits() -> list[Recipe]:
    def recipe(method: str, **settings: object) -> Recipe:
        return Recipe(
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


def draw(rows: Sequence[Row]) -> Figure:
    """Both tasks against the example gradients spent, mean over seeds with the range between them."""
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    axes = figure.subplots(1, 2)
    _curves(axes[0], [row for row in rows if row.task == SYNTHETIC])
    axes[0].set_yscale("log")
    _curves(axes[1], [row for row in rows if row.task == DIGITS and row.epoch > 0])
    return figure


def _curves(axes: Axes, rows: Sequence[Row]) -> None:
    colors = mpl.color_sequences["petroff10"]
    methods = list(dict.fromkeys(row.method for row in rows))
    for color, method in zip(colors, methods, strict=False):
        of_method = [row for row in rows if row.method == method]
        seeds = sorted({row.seed for row in of_method})
        trained = [row.examples_trained for row in of_method if row.seed == seeds[0]]
        values = np.array([[row.metric for row in of_method if row.seed == seed] for seed in seeds])
        axes.plot(trained, values.mean(0), label=method, color=color)
        axes.fill_between(trained, values.min(0), values.max(0), color=color, alpha=0.15, linewidth=0)
    axes.set_title(rows[0].task)
    axes.set_xlabel("example gradients used for updates")
    axes.legend(fontsize="small")
    axes.grid(visible=True, alpha=0.3)

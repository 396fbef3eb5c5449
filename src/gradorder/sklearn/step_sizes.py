"""Step sizes as estimators take them: a schedule, its name with `eta0`, or any function of step and epoch."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gradorder.schedules import (
    Constant,
    Decreasing,
    InversePerEpoch,
    InversePerStep,
    InverseSqrtPerEpoch,
    InverseSqrtPerStep,
    Schedule,
)
from gradorder.sklearn import compiled
from gradorder.sklearn.compiled import Array
from gradorder.sklearn.compiled.models import SQUARED_LENGTH, TARGET, WEIGHT

NAMED: dict[str, Callable[[float], Schedule]] = {
    "constant": Constant,
    "inverse-per-step": InversePerStep,
    "inverse-sqrt-per-step": InverseSqrtPerStep,
    "inverse-per-epoch": InversePerEpoch,
    "inverse-sqrt-per-epoch": InverseSqrtPerEpoch,
}

_COMPILED: dict[type[Schedule], int] = {
    Constant: compiled.CONSTANT,
    InversePerStep: compiled.INVERSE_PER_STEP,
    InverseSqrtPerStep: compiled.INVERSE_SQRT_PER_STEP,
    InversePerEpoch: compiled.INVERSE_PER_EPOCH,
    InverseSqrtPerEpoch: compiled.INVERSE_SQRT_PER_EPOCH,
}

StepSizes = Callable[[int, int], float]
"""A function of the step and the epoch, both counted from 0."""


class Formula(NamedTuple):
    """A schedule in numbers, for the compiled loop."""

    schedule: int
    a: float = 0.0
    scale: float = 1.0
    since: int = 0


def default_eta0(loss: int, examples: Array) -> float:
    """The first step size where none is given, from s_i = ||x_i||^2 + 1, and at most 1.

    A step of 1 / s_i moves the prediction of example i by the slope of its loss. Classifiers take 1 / mean(s), a mean
    example's. Regressors, whose slopes have no limit, take 0.1 / mean(s), and no more than 1 / max(s), so that one
    update never overshoots the minimum of its own loss; there s_i is times the example's weight. Both are over the
    curvature of the loss.

    Example:
        >>> examples = np.array([[0.5, 1.0, 3.0, 2.0], [0.5, 1.0, 15.0, 4.0]])  # ||x||^2 of 3 and 15
        >>> default_eta0(compiled.HINGE, examples), default_eta0(compiled.SQUARED_ERROR, examples)
        (0.1, 0.01)
    """
    scales = examples[:, SQUARED_LENGTH] + 1.0
    if loss in {compiled.SQUARED_ERROR, compiled.HUBER, compiled.QUARTIC}:
        scales = examples[:, WEIGHT] * scales
        scale = max(10.0 * float(scales.mean()), float(scales.max()))
    else:
        scale = float(scales.mean())
    return 1.0 / max(1.0, _curvature(loss, examples) * scale)


def _curvature(loss: int, examples: Array) -> float:
    """The second derivative of the loss by the prediction, of the quartic loss where the prediction is 0.

    1 for the hinge loss, which has none, and for those that have less.
    """
    if loss == compiled.QUARTIC:
        return 12.0 * float(np.max(np.square(examples[:, TARGET]))) + 2.0
    return 2.0 if loss == compiled.MODIFIED_HUBER else 1.0


def step_sizes_of(schedule: StepSizes | str | None, eta0: float | None, default: float, num_examples: int) -> StepSizes:
    """The schedule that these parameters of an estimator mean; without a schedule eta0 / (1 + t / n).

    Raises:
        ValueError: `schedule` brings its own step sizes and `eta0` says something else.
    """
    first = default if eta0 is None else float(eta0)
    if schedule is None:
        return InversePerStep(first, scale=num_examples)
    if isinstance(schedule, str):
        return NAMED[schedule](first)
    if eta0 is not None and eta0 != getattr(schedule, "a", None):
        raise ValueError(
            f"eta0 must not be given with schedule={schedule!r}, which has its own step sizes, got {eta0!r}"
        )
    return schedule


def formula_of(step_sizes: StepSizes) -> Formula:
    """The compiled loop's numbers for these step sizes; GIVEN_SIZES where it has no formula."""
    if not isinstance(step_sizes, Schedule) or type(step_sizes) not in _COMPILED:
        return Formula(compiled.GIVEN_SIZES)
    scale = step_sizes.scale if isinstance(step_sizes, InversePerStep) else 1.0
    since = step_sizes.since if isinstance(step_sizes, Decreasing) else 0
    return Formula(_COMPILED[type(step_sizes)], step_sizes.a, float(scale), since)

"""Step sizes as estimators take them: a schedule, its name with `eta0`, or any function of step and epoch."""

from collections.abc import Callable
from typing import NamedTuple

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

LARGEST_DEFAULT = 0.01

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


def default_eta0(curvature: float, largest_square: float) -> float:
    """The first step size where none is given: 0.01, or less where the data are on a larger scale.

    At most 1 / (curvature * max_i weight_i (||x_i||^2 + 1)): one update on one example then never overshoots the
    minimum of its own loss.

    Example:
        >>> default_eta0(1.0, 10.0), default_eta0(1.0, 20_000.0)
        (0.01, 5e-05)
    """
    return min(LARGEST_DEFAULT, 1 / max(curvature * largest_square, 1.0))


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

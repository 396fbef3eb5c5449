"""Step sizes as estimators take them: a schedule, its name with `eta0`, or any function of step and epoch."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self, final

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

_ROWS_OF_A_STREAM = 1000.0
_WEIGHTED = {compiled.SQUARED_ERROR, compiled.HUBER, compiled.QUARTIC}


@final
@dataclass(frozen=True)
class OfStream(Schedule):
    """a / sqrt(1 + t / 1000), of the step alone: for data whose length is not known.

    It has to suit any length. Next to a / (1 + t / 1000) it still learns after many thousand rows, and next to
    a / sqrt(1 + t) it is still near a where there are only some hundreds.
    """

    def __call__(self, step: int, epoch: int) -> float:
        """The step size of this update."""
        del epoch
        return self.a / math.sqrt(1 + step / _ROWS_OF_A_STREAM)


_COMPILED: dict[type[Schedule], int] = {
    Constant: compiled.CONSTANT,
    InversePerStep: compiled.INVERSE_PER_STEP,
    InverseSqrtPerStep: compiled.INVERSE_SQRT_PER_STEP,
    OfStream: compiled.INVERSE_SQRT_PER_STEP,
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


class SeenRows(NamedTuple):
    """What the first step size depends on, of all rows so far: s_i = ||x_i||^2 + 1, for regressors times the weight.

    Example:
        >>> examples = np.array([[0.5, 1.0, 3.0, 2.0], [0.5, 1.0, 15.0, 4.0]])  # ||x||^2 of 3 and 15
        >>> rows = SeenRows().and_then(compiled.HINGE, examples[:1]).and_then(compiled.HINGE, examples[1:])
        >>> rows.eta0(compiled.HINGE), rows.eta0(compiled.SQUARED_ERROR)
        (0.1, 0.01)
    """

    number: int = 0
    total: float = 0.0
    """The sum of s_i."""
    longest: float = 0.0
    """The largest s_i."""
    largest_square: float = 0.0
    """Of the targets."""

    def and_then(self, loss: int, examples: Array) -> Self:
        """These rows, and those of `examples` after them."""
        scales = examples[:, SQUARED_LENGTH] + 1.0
        if loss in _WEIGHTED:
            scales = examples[:, WEIGHT] * scales
        return self._replace(
            number=self.number + len(scales),
            total=self.total + float(scales.sum()),
            longest=max(self.longest, float(scales.max())),
            largest_square=max(self.largest_square, float(np.max(np.square(examples[:, TARGET])))),
        )

    def eta0(self, loss: int) -> float:
        """The first step size where none is given, at most 1.

        A step of 1 / s_i moves the prediction of example i by the slope of its loss. Classifiers take 1 / mean(s), a
        mean example's. Regressors, whose slopes have no limit, take 0.1 / mean(s), and no more than 1 / max(s), so that
        one update never overshoots the minimum of its own loss. Both are over the curvature of the loss.
        """
        scale = self.total / self.number
        if loss in _WEIGHTED:
            scale = max(10.0 * scale, self.longest)
        return 1.0 / max(1.0, self._curvature(loss) * scale)

    def _curvature(self, loss: int) -> float:
        """The second derivative of the loss by the prediction, of the quartic loss where the prediction is 0.

        1 for the hinge loss, which has none, and for those that have less.
        """
        if loss == compiled.QUARTIC:
            return 12.0 * self.largest_square + 2.0
        return 2.0 if loss == compiled.MODIFIED_HUBER else 1.0


def step_sizes_of(
    schedule: StepSizes | str | None, eta0: float | None, default: float, num_examples: int | None
) -> StepSizes:
    """The schedule that these parameters of an estimator mean.

    Without a schedule it is eta0 / (1 + t / n), and for a stream, whose n is not known, that of `OfStream`.

    Raises:
        ValueError: `schedule` brings its own step sizes and `eta0` says something else.
    """
    first = default if eta0 is None else float(eta0)
    if schedule is None:
        return OfStream(first) if num_examples is None else InversePerStep(first, scale=num_examples)
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
    scale = _ROWS_OF_A_STREAM if isinstance(step_sizes, OfStream) else scale
    since = step_sizes.since if isinstance(step_sizes, Decreasing) else 0
    return Formula(_COMPILED[type(step_sizes)], step_sizes.a, float(scale), since)

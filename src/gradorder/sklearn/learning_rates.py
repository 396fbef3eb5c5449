"""Learning rates of the estimators: a schedule, its name with `eta0`, or any function of step and epoch."""

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
from gradorder.sklearn.compiled import SQUARED_LENGTH, TARGET, WEIGHT, Array

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
    """a / sqrt(1 + t / 1000): for `partial_fit`, which does not know the number of rows to come.

    It stays close to `a` for the first hundreds of rows, unlike a / sqrt(1 + t), and still learns after many thousand
    rows, unlike a / (1 + t / 1000).
    """

    def __call__(self, step: int, epoch: int) -> float:
        """Return the learning rate of this update."""
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

LearningRates = Callable[[int, int], float]
"""A function of the step and the epoch, both counted from 0."""


class Formula(NamedTuple):
    """A schedule as the compiled loop takes it."""

    schedule: int
    a: float = 0.0
    scale: float = 1.0
    since: int = 0


class SeenRows(NamedTuple):
    """Statistics of the rows so far that `eta0` depends on: s_i = ||x_i||^2 + 1, for regressors times the weight.

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
        """Return the statistics of these rows and the new `examples`."""
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
        """Return the default of `eta0`, at most 1.

        An update with the learning rate 1 / s_i moves the prediction of example i by the derivative of its loss.
        Classifiers use 1 / mean(s). Regressors, whose derivatives have no limit, use 0.1 / mean(s) and at most
        1 / max(s), so that an update never overshoots the minimum of its own loss. Both are divided by the curvature.
        """
        scale = self.total / self.number
        if loss in _WEIGHTED:
            scale = max(10.0 * scale, self.longest)
        return 1.0 / max(1.0, self._curvature(loss) * scale)

    def _curvature(self, loss: int) -> float:
        """Return the largest second derivative of the loss (quartic: at the prediction 0), or 1 if it has none."""
        if loss == compiled.LOG_LOSS:
            return 0.25
        if loss == compiled.QUARTIC:
            return 12.0 * self.largest_square + 2.0
        return 2.0 if loss == compiled.MODIFIED_HUBER else 1.0


def learning_rates_of(
    schedule: LearningRates | str | None, eta0: float | None, default: float, num_examples: int | None
) -> LearningRates:
    """Return the schedule for these parameters of an estimator.

    The default is eta0 / (1 + t / n), and `OfStream` if `num_examples` is not known.

    Raises:
        ValueError: `eta0` contradicts `schedule`, which has its own learning rates.
    """
    first = default if eta0 is None else float(eta0)
    if schedule is None:
        return OfStream(first) if num_examples is None else InversePerStep(first, scale=num_examples)
    if isinstance(schedule, str):
        return NAMED[schedule](first)
    if eta0 is not None and eta0 != getattr(schedule, "a", None):
        raise ValueError(
            f"eta0 must not be given with schedule={schedule!r}, which has its own learning rates, got {eta0!r}"
        )
    return schedule


def formula_of(learning_rates: LearningRates) -> Formula:
    """Return the formula for the compiled loop; GIVEN_RATES if it has none."""
    if not isinstance(learning_rates, Schedule) or type(learning_rates) not in _COMPILED:
        return Formula(compiled.GIVEN_RATES)
    scale = learning_rates.scale if isinstance(learning_rates, InversePerStep) else 1.0
    scale = _ROWS_OF_A_STREAM if isinstance(learning_rates, OfStream) else scale
    since = learning_rates.since if isinstance(learning_rates, Decreasing) else 0
    return Formula(_COMPILED[type(learning_rates)], learning_rates.a, float(scale), since)

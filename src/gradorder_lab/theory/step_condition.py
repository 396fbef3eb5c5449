"""The paper's condition on the step size, a < 1 / (L G M)."""

from dataclasses import dataclass

import numpy as np

from gradorder import checks
from gradorder_lab.theory import arrays
from gradorder_lab.theory.arrays import Array
from gradorder_lab.theory.recorded_epoch import RecordedEpoch


@dataclass(frozen=True)
class StepCondition:
    """What the largest step size must stay below.

    The paper names L (Lipschitz constant of the gradients) and M (bound on the gradients) but never says what G is:
    read here as a second bound on the gradients, G = M. As 1 / (L M^2) changes with the units of the loss (a step
    size does not scale like it), 1 / (L M) and the usual 1 / L stand beside it.

    Args:
        step_size: the largest of the epoch.
        smoothness: L.
        gradient_bound: M, the largest gradient norm.
    """

    step_size: float
    smoothness: float
    gradient_bound: float

    @property
    def limit(self) -> float:
        """1 / (L G M) with G = M."""
        return _inverse(self.smoothness * self.gradient_bound**2)

    @property
    def limit_without_g(self) -> float:
        """1 / (L M)."""
        return _inverse(self.smoothness * self.gradient_bound)

    @property
    def limit_of_smoothness(self) -> float:
        """1 / L."""
        return _inverse(self.smoothness)

    @property
    def met(self) -> bool:
        """Whether the step size is below 1 / (L G M)."""
        return self.step_size < self.limit


def step_condition(epoch: RecordedEpoch, *, smoothness: float | None = None) -> StepCondition:
    """The condition for this epoch; M is the largest gradient norm it saw.

    Args:
        epoch: what was recorded.
        smoothness: L. Without it, the largest ||M'_i - M_i|| / ||x_{i-1} - x_0|| of the epoch: L is at least that, so
            a condition that fails with it fails, and one that is met may still fail.

    Raises:
        ValueError: if `smoothness` is not positive and finite, or smaller than what the epoch shows it to be.
    """
    seen = _smoothness_seen(epoch)
    if smoothness is not None and checks.positive("smoothness", smoothness) < seen * (1 - epoch.roundings(1.0)):
        raise ValueError(f"smoothness must be at least what the epoch shows, {seen}, got {smoothness!r}")
    return StepCondition(
        step_size=float(epoch.step_sizes.max()),
        smoothness=seen if smoothness is None else float(smoothness),
        gradient_bound=float(np.maximum(arrays.norms(epoch.gradients), arrays.norms(epoch.start_gradients)).max()),
    )


def _smoothness_seen(epoch: RecordedEpoch) -> float:
    changes = arrays.norms(epoch.gradients - epoch.start_gradients)
    moved: Array = arrays.norms(epoch.iterates[:-1] - epoch.start)
    return float(np.max(changes[moved > 0] / moved[moved > 0], initial=0.0))


def _inverse(value: float) -> float:
    return np.inf if value == 0 else 1 / value

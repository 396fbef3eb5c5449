"""Every term of Theorems 1 to 4 from a recorded epoch: as published, and corrected so that it always holds.

With D = ||x_k - x*||, C_i >= max(||M_i||, ||M'_i||), a_k the epoch's first step size, a_{k+1} the next epoch's, and
eps_k = max_i (D ||M_i|| - (f_i(x_k) - f_i(x*))):

    published   D^2 - 2 D sum a_i ||M_i|| + a_k^2 (2 sum (n - i) C_i^2 + sum C_i^2)
                    - a_k^2 a_{k+1} sum (n - i) m_i max(||M_i||, ||M'_i||)^2 + n a_k eps_k
    corrected   D^2 - 2 D sum a_i ||M_i|| + (sum a_i C_i)^2 - (D^2 / 2) sum a_i m_i + 2 eps_k sum a_i

The corrected one holds for convex f_i, every order and all step sizes; `docs/theory.md` has its proof.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from gradorder import checks
from gradorder_lab.theory import arrays
from gradorder_lab.theory.arrays import Array
from gradorder_lab.theory.recorded_epoch import RecordedEpoch

_THEOREMS: Final = {(True, False): 1, (True, True): 2, (False, False): 3, (False, True): 4}
"""By whether every m_i is above 0, and whether the step size is constant."""


@dataclass(frozen=True)
class Bound:
    """||x_{k+1} - x*||^2 <= distance - first_order + second_order - strong_convexity + epsilon_term.

    Args:
        distance: ||x_k - x*||^2.
        first_order: 2 ||x_k - x*|| sum_i a_i ||M_i||; the paper sorts examples to maximise it.
        second_order: the cost of the movement within the epoch.
        strong_convexity: the gain from strong convexity.
        epsilon_term: the part by which f_i(x_k) - f_i(x*) falls short of ||M_i|| ||x_k - x*||.
        measured: ||x_{k+1} - x*||^2, the left-hand side.
        rounding: the largest rounding error of float64.
    """

    distance: float
    first_order: float
    second_order: float
    strong_convexity: float
    epsilon_term: float
    measured: float
    rounding: float

    @property
    def right_hand_side(self) -> float:
        """The bound itself."""
        gains = self.first_order + self.strong_convexity
        return self.distance - gains + self.second_order + self.epsilon_term

    @property
    def slack(self) -> float:
        """The bound minus the measured value; negative values contradict the bound."""
        return self.right_hand_side - self.measured

    @property
    def holds(self) -> bool:
        """Whether the measured value is below the bound, up to rounding."""
        return self.slack >= -self.rounding


@dataclass(frozen=True)
class EpochBound:
    """The terms of the theorem that applies to one epoch, and three bounds put together from them.

    Args:
        theorem: 1 (strongly convex, decreasing step size), 2 (strongly convex, constant), 3 (convex, decreasing)
            or 4 (convex, constant).
        first_order_sum: sum_i a_i ||M_i||.
        pair_sum: 2 sum_i (n - i) C_i^2, the part of the second-order term that depends on the order.
        square_sum: sum_i C_i^2.
        epsilon: eps_k.
        premise_share: the share of examples with f_i(x_k) >= f_i(x*), which Lemma 1 takes for granted.
        published: the theorem's right-hand side, letter by letter.
        corrected: the bound that holds for every order.
        tight: the same proof with nothing rounded up: inner products instead of norms, each example's own epsilon.
    """

    theorem: int
    first_order_sum: float
    pair_sum: float
    square_sum: float
    epsilon: float
    premise_share: float
    published: Bound
    corrected: Bound
    tight: Bound

    @property
    def measured(self) -> float:
        """||x_{k+1} - x*||^2."""
        return self.tight.measured


def epoch_bound(
    epoch: RecordedEpoch, *, gradient_bounds: ArrayLike | None = None, next_step_size: float | None = None
) -> EpochBound:
    """The bounds on the distance after this epoch, term by term.

    Theorems 1 and 2 apply if every m_i is above 0, otherwise 3 and 4; `dataclasses.replace(epoch,
    strong_convexity=0)` asks for the latter. A constant step size gives 2 or 4.

    Args:
        epoch: what was recorded.
        gradient_bounds: C_i, shape (n,), at least max(||M_i||, ||M'_i||), which is what is used without them: the
            proof needs the gradients at these two points only.
        next_step_size: a_{k+1}, the first step size of the next epoch; the last one of this epoch without it.

    Raises:
        ValueError: if a step size is larger than the one before, or a C_i smaller than a gradient it must bound.

    Example:
        >>> epoch = RecordedEpoch(
        ...     start=[1.0, 0.0], end=[0.9, 0.0], optimum=[0.0, 0.0], step_sizes=[0.1],
        ...     start_gradients=[[1.0, 0.0]], gradients=[[1.0, 0.0]],
        ...     values=[0.5], optimal_values=[0.0], strong_convexity=1.0,
        ... )
        >>> bound = epoch_bound(epoch)
        >>> bound.theorem, bound.first_order_sum, bound.epsilon, bound.corrected.holds
        (2, 0.1, 0.5, True)
        >>> [round(side, 3) for side in (bound.measured, bound.tight.right_hand_side, bound.corrected.right_hand_side)]
        [0.81, 0.81, 0.86]
    """
    steps = _non_increasing(epoch.step_sizes)
    largest = _gradient_bounds(epoch, gradient_bounds)
    following = float(steps[-1]) if next_step_size is None else checks.positive("next_step_size", next_step_size)
    shortfalls = _shortfalls(epoch)
    epsilon = float(shortfalls.max())
    return EpochBound(
        theorem=_THEOREMS[_is_strongly_convex(epoch), bool((steps == steps[0]).all())],
        first_order_sum=_first_order_sum(epoch),
        pair_sum=2 * float(_steps_left(epoch) @ largest**2),
        square_sum=float(largest @ largest),
        epsilon=epsilon,
        premise_share=float((epoch.values >= epoch.optimal_values).mean()),
        published=_published(epoch, largest, epsilon, following),
        corrected=_corrected(epoch, largest, epsilon),
        tight=_tight(epoch, shortfalls),
    )


def _published(epoch: RecordedEpoch, largest: Array, epsilon: float, following: float) -> Bound:
    """Equations (4), (5), (8) and (9) of the paper."""
    first, left = float(epoch.step_sizes[0]), _steps_left(epoch)
    curved = float((left * epoch.curvatures) @ _largest_seen(epoch) ** 2) if _is_strongly_convex(epoch) else 0.0
    return _bound(
        epoch,
        second_order=first**2 * float(2 * left @ largest**2 + largest @ largest),
        strong_convexity=first**2 * following * curved,
        epsilon_term=epoch.num_steps * first * epsilon,
    )


def _corrected(epoch: RecordedEpoch, largest: Array, epsilon: float) -> Bound:
    """Norms only: nothing but C_i, m_i and epsilon is needed from inside the epoch."""
    steps = epoch.step_sizes
    return _bound(
        epoch,
        second_order=float(steps @ largest) ** 2,
        strong_convexity=_distance(epoch) ** 2 / 2 * float(steps @ epoch.curvatures),
        epsilon_term=2 * epsilon * float(steps.sum()),
    )


def _tight(epoch: RecordedEpoch, shortfalls: Array) -> Bound:
    """What convexity alone gives, before any norm is taken."""
    steps, points = epoch.step_sizes, epoch.iterates[:-1]
    moved = epoch.start - points
    crossings = (epoch.start_gradients * moved).sum(1)
    squares = arrays.norms(moved) ** 2 + arrays.norms(points - epoch.optimum) ** 2
    return _bound(
        epoch,
        second_order=float(2 * steps @ crossings + steps**2 @ arrays.norms(epoch.gradients) ** 2),
        strong_convexity=float((steps * epoch.curvatures) @ squares),
        epsilon_term=float(2 * steps @ shortfalls),
    )


def _bound(epoch: RecordedEpoch, *, second_order: float, strong_convexity: float, epsilon_term: float) -> Bound:
    """A bound with the terms that all of them share."""
    distance, left = _distance(epoch), epoch.end - epoch.optimum
    first_order = 2 * distance * _first_order_sum(epoch)
    places = float(np.linalg.norm(epoch.start) + np.linalg.norm(epoch.optimum)) ** 2
    values = 2 * float(epoch.step_sizes @ (np.abs(epoch.values) + np.abs(epoch.optimal_values)))
    size = places + values + first_order + abs(second_order) + strong_convexity + abs(epsilon_term)
    return Bound(
        distance=distance**2,
        first_order=first_order,
        second_order=second_order,
        strong_convexity=strong_convexity,
        epsilon_term=epsilon_term,
        measured=float(left @ left),
        rounding=epoch.roundings(size),
    )


def _distance(epoch: RecordedEpoch) -> float:
    """D = ||x_k - x*||."""
    return float(np.linalg.norm(epoch.start - epoch.optimum))


def _first_order_sum(epoch: RecordedEpoch) -> float:
    return float(epoch.step_sizes @ arrays.norms(epoch.start_gradients))


def _shortfalls(epoch: RecordedEpoch) -> Array:
    """D ||M_i|| - (f_i(x_k) - f_i(x*)), which convexity keeps from being negative."""
    gaps = epoch.values - epoch.optimal_values
    return np.asarray(_distance(epoch) * arrays.norms(epoch.start_gradients) - gaps)


def _largest_seen(epoch: RecordedEpoch) -> Array:
    """max(||M_i||, ||M'_i||)."""
    return np.maximum(arrays.norms(epoch.start_gradients), arrays.norms(epoch.gradients))


def _steps_left(epoch: RecordedEpoch) -> Array:
    """The steps that follow step i: n - i, for i from 1 to n."""
    return np.arange(epoch.num_steps - 1, -1, -1, dtype=np.float64)


def _is_strongly_convex(epoch: RecordedEpoch) -> bool:
    return bool((epoch.curvatures > 0).all())


def _non_increasing(step_sizes: Array) -> Array:
    if (np.diff(step_sizes) > 0).any():
        step = int(np.diff(step_sizes).argmax()) + 1
        raise ValueError(
            "step_sizes must not increase within the epoch, "
            f"got {step_sizes[step]} after {step_sizes[step - 1]} at step {step}"
        )
    return step_sizes


def _gradient_bounds(epoch: RecordedEpoch, given: ArrayLike | None) -> Array:
    """C_i: the largest gradients seen, or what was given if that is at least as large."""
    seen = _largest_seen(epoch)
    if given is None:
        return seen
    largest = arrays.finite("gradient_bounds", given, seen.shape)
    if (largest < seen).any():
        step = int((seen - largest).argmax())
        raise ValueError(
            "gradient_bounds must be at least max(||M_i||, ||M'_i||), "
            f"got {largest[step]} for a gradient of norm {seen[step]} at step {step}"
        )
    return largest

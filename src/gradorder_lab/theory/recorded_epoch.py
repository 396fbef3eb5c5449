"""What one epoch of one-example SGD leaves behind: all that the bounds are computed from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from gradorder_lab.theory import arrays
from gradorder_lab.theory.arrays import Array

_ROUNDINGS: Final = 16
"""Float64 roundings allowed per step, each relative to the size of what is added."""


@dataclass(frozen=True, eq=False)
class RecordedEpoch:
    """One epoch of n steps x_i = x_{i-1} - a_i g_i in R^d. Rows are in visiting order; array-likes become float64.

    The bounds use convexity between the iterates and `optimum` only, so an optimum known to a few digits is enough:
    it is a point of reference, and the bounds hold for any other point as well.

    Args:
        start: x_0, shape (d,).
        end: x_n, shape (d,).
        optimum: x*, shape (d,).
        step_sizes: a_i, shape (n,), or one number for all.
        start_gradients: M_i = grad f_i(x_0), shape (n, d).
        gradients: M'_i = g_i = grad f_i(x_{i-1}), as used by step i, shape (n, d).
        values: f_i(x_0), shape (n,).
        optimal_values: f_i(x*), shape (n,).
        strong_convexity: m_i >= 0 with f_i - (m_i / 2) ||x||^2 convex, shape (n,), or one number for all.

    Raises:
        ValueError: if a shape, a number or a sign is wrong, if `end` is not where the steps lead, or if the values
            contradict convexity with these constants.
    """

    start: Array
    end: Array
    optimum: Array
    step_sizes: Array
    start_gradients: Array
    gradients: Array
    values: Array
    optimal_values: Array
    strong_convexity: Array | float = 0.0

    def __post_init__(self) -> None:
        start = self._set("start", arrays.finite("start", self.start, (None,)))
        size = len(start)
        for name in ("end", "optimum"):
            self._set(name, arrays.finite(name, getattr(self, name), (size,)))
        gradients = self._set("gradients", arrays.finite("gradients", self.gradients, (None, size)))
        self._set("start_gradients", arrays.finite("start_gradients", self.start_gradients, gradients.shape))
        for name in ("step_sizes", "values", "optimal_values", "strong_convexity"):
            self._set(name, arrays.one_per_step(name, getattr(self, name), len(gradients)))
        self._check()

    def _set(self, name: str, value: Array) -> Array:
        object.__setattr__(self, name, value)
        return value

    def _check(self) -> None:
        arrays.all_positive("step_sizes", self.step_sizes)
        if (self.curvatures < 0).any():
            raise ValueError(f"strong_convexity must be >= 0, got {self.curvatures.min()}")
        missed = float(np.linalg.norm(self.end - self.iterates[-1]))
        if missed > self.roundings(self._path_size()):
            raise ValueError(f"end must be start minus the sum of step_sizes * gradients, got one {missed:.3g} off")
        excess = self._convexity_excess()
        if (excess > 0).any():
            step = int(excess.argmax())
            raise ValueError(
                "values must satisfy f_i(x*) >= f_i(x_0) + M_i.(x* - x_0) + (m_i / 2) ||x* - x_0||^2, "
                f"got {excess[step]:.3g} too little at step {step}: not convex, or strong_convexity is too large"
            )

    def _path_size(self) -> float:
        """A length that no coordinate of the epoch exceeds."""
        travelled = float(self.step_sizes @ arrays.norms(self.gradients))
        return float(np.linalg.norm(self.start)) + travelled

    def _convexity_excess(self) -> Array:
        """How far each f_i lies above what convexity allows at x_0, beyond rounding."""
        apart = self.start - self.optimum
        slopes = self.start_gradients @ apart
        bends = self.curvatures / 2 * (apart @ apart)
        sizes = (
            np.abs(self.values)
            + np.abs(self.optimal_values)
            + arrays.norms(self.start_gradients) * (np.linalg.norm(self.start) + np.linalg.norm(self.optimum))
            + bends
        )
        return np.asarray(self.values - self.optimal_values - slopes + bends - self.roundings(1.0) * sizes)

    def roundings(self, size: float) -> float:
        """What float64 may lose over the epoch in numbers of this size."""
        return _ROUNDINGS * (self.num_steps + len(self.start)) * float(np.finfo(np.float64).eps) * size

    @property
    def num_steps(self) -> int:
        """The number of steps n."""
        return len(self.gradients)

    @property
    def curvatures(self) -> Array:
        """m_i, shape (n,)."""
        return np.asarray(self.strong_convexity, dtype=np.float64)

    @property
    def iterates(self) -> Array:
        """x_0 to x_n as the steps give them, shape (n + 1, d)."""
        moves = np.cumsum(self.step_sizes[:, None] * self.gradients, axis=0)
        return np.vstack([self.start, self.start - moves])


def record_epoch(
    losses: Callable[[Array], ArrayLike],
    gradient: Callable[[Array, int], ArrayLike],
    *,
    start: ArrayLike,
    optimum: ArrayLike,
    order: ArrayLike,
    step_sizes: ArrayLike,
    strong_convexity: ArrayLike = 0.0,
) -> RecordedEpoch:
    """Run one epoch of one-example SGD and keep what the bounds need: the slow, obvious loop.

    Args:
        losses: `losses(x)` gives f_i(x) for every example, shape (number of examples,).
        gradient: `gradient(x, example)` gives the gradient of that example's loss, shape (d,).
        start: x_0, shape (d,).
        optimum: x*, shape (d,).
        order: the examples in visiting order, each at most once.
        step_sizes: one for each step, or one number for all.
        strong_convexity: m_i for each example (in the data's order, not the visiting order), or one number for all.

    Raises:
        ValueError: if `order` names an example twice or one that is not there, or as `RecordedEpoch` does.

    Example:
        >>> points = np.array([3.0, 0.0])  # f_i(x) = (x - p_i)^2 / 2 on the line
        >>> epoch = record_epoch(
        ...     losses=lambda x: (x - points) ** 2 / 2,
        ...     gradient=lambda x, example: x - points[example],
        ...     start=[2.0], optimum=[1.5], order=[1, 0], step_sizes=0.5, strong_convexity=1.0,
        ... )
        >>> epoch.iterates.ravel().tolist()
        [2.0, 1.0, 2.0]
    """
    begin = arrays.finite("start", start, (None,))
    goal = arrays.finite("optimum", optimum, begin.shape)
    values = arrays.finite("losses(start)", losses(begin), (None,))
    visited = _distinct(order, len(values))
    steps = arrays.one_per_step("step_sizes", step_sizes, len(visited))
    used, point = [], begin
    for example, step in zip(visited, steps, strict=True):
        used.append(arrays.finite("gradient(x, example)", gradient(point, example), begin.shape))
        point = point - step * used[-1]
    return RecordedEpoch(
        start=begin,
        end=point,
        optimum=goal,
        step_sizes=steps,
        start_gradients=np.array([gradient(begin, example) for example in visited], dtype=np.float64),
        gradients=np.array(used),
        values=values[visited],
        optimal_values=arrays.finite("losses(optimum)", losses(goal), values.shape)[visited],
        strong_convexity=arrays.one_per_step("strong_convexity", strong_convexity, len(values))[visited],
    )


def _distinct(order: ArrayLike, num_examples: int) -> list[int]:
    """`order` as a list of different examples, all of which exist."""
    array = np.asarray(order)
    visited: list[int] = array.tolist() if array.ndim == 1 and array.dtype.kind in "iu" else []
    if not visited or len(set(visited)) < len(visited) or not set(visited) <= set(range(num_examples)):
        raise ValueError(f"order must hold different examples of range({num_examples}), got {order!r}")
    return visited

"""A convex problem of the paper: examples, start and optimum."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradorder_lab.problems import compiled
from gradorder_lab.runs.recipe import Array

_NEWTON_STEPS = 200
_SMALLEST_DAMPING = 1e-12


@dataclass(frozen=True, eq=False)
class ConvexProblem:
    """f_i(w) = sum_j pull(A_ij . w - b_ij), F = the mean of all f_i.

    Args:
        directions: A, (n, m, d).
        targets: b, (n, m).
        start: the first iterate, (d,).
        pull: what a residual costs, see `compiled`.
        strong_convexity: m with f_i - (m / 2) ||w||^2 convex for every i, 0 where there is none.
    """

    directions: Array
    targets: Array
    start: Array
    pull: int = compiled.BOTH
    strong_convexity: float = 0.0

    @property
    def num_examples(self) -> int:
        """How many, n."""
        return len(self.targets)

    def losses(self, w: Array) -> Array:
        """f_i(w) of every example, (n,)."""
        values: Array = compiled.losses(self.pull, self.directions, self.targets, w)
        return values

    def loss(self, w: Array) -> float:
        """F(w)."""
        return float(self.losses(w).mean())

    def gradients(self, w: Array) -> Array:
        """Every example's gradient at w, (n, d)."""
        values: Array = compiled.gradients(self.pull, self.directions, self.targets, w)
        return values

    def gradient(self, w: Array, example: int) -> Array:
        """One example's gradient at w, (d,)."""
        one = slice(example, example + 1)
        values: Array = compiled.gradients(self.pull, self.directions[one], self.targets[one], w)[0]
        return values

    def gradient_norms(self, w: Array) -> Array:
        """||M_i|| of every example at w, (n,)."""
        values: Array = compiled.example_norms(self.pull, self.directions, self.targets, w)
        return values

    def descend(self, w: Array, order: NDArray[np.int64], step_sizes: Array) -> None:
        """One update of w, in place, for each example of the order."""
        compiled.descend(self.pull, self.directions, self.targets, w, order, step_sizes)

    @cached_property
    def optimum(self) -> Array:
        """The argmin of F."""
        if self.pull == compiled.BY_ITERATE:
            return self._optimum_by_iterate()
        return self._newton(np.zeros_like(self.start))

    @cached_property
    def optimal_loss(self) -> float:
        """F*."""
        return self.loss(self.optimum)

    def _newton(self, w: Array) -> Array:
        """Newton's method, with steps halved until F does not grow: F is convex."""
        for _ in range(_NEWTON_STEPS):
            step = np.linalg.lstsq(self._hessian(w), self.gradients(w).mean(0), rcond=None)[0]
            damping = 1.0
            while self.loss(w - damping * step) > self.loss(w) and damping > _SMALLEST_DAMPING:
                damping /= 2
            following = w - damping * step
            if self.loss(following) >= self.loss(w):
                return w
            w = following
        return w

    def _hessian(self, w: Array) -> Array:
        residuals = np.einsum("imd,d->im", self.directions, w) - self.targets
        is_quartic = np.ones_like(residuals) if self.pull == compiled.BOTH else (self.targets < 0).astype(float)
        is_quadratic = np.ones_like(residuals) if self.pull == compiled.BOTH else 1 - is_quartic
        curvatures = is_quartic * 12 * residuals**2 + is_quadratic * 2
        hessian: Array = np.einsum("im,imd,ime->de", curvatures, self.directions, self.directions)
        return hessian / self.num_examples

    def _optimum_by_iterate(self) -> Array:
        """Coordinate by coordinate: the quadratic's lowest point with x >= 0.

        F jumps down at 0 from the quartic to the quadratic side; the quadratic side is the lower one wherever the
        points spread over the box, which is checked.
        """
        points = self.targets
        optimum: Array = np.maximum(points.mean(0), 0.0)
        quadratic = ((optimum - points) ** 2).mean(0)
        below_zero = np.minimum(_quartic_minimiser(points), 0.0)
        quartic = ((below_zero - points) ** 4).mean(0)
        if not (quadratic <= quartic).all():
            raise ValueError(f"the minimum lies on the quartic side: {quartic} against {quadratic}")
        return optimum


def _quartic_minimiser(points: Array) -> Array:
    """The argmin over x of the mean of (x - x_i)^4, in every column, by Newton's method."""
    x: Array = points.mean(0)
    for _ in range(_NEWTON_STEPS):
        differences = x - points
        x = x - (differences**3).mean(0) / (3 * (differences**2).mean(0))
    return x

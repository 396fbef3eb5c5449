"""The inner loops of the convex problems, compiled.

Every problem is f_i(w) = sum_j pull(r_ij), r_ij = A_ij . w - b_ij, with A of shape (n, m, d) and b of shape (n, m):
the synthetic points have A_i = I, linear regression has one row (x_i, 1). The loops are written for that one form;
`pull` says what r costs:

    BOTH        r^4 + r^2
    BY_ITERATE  r^4 where the iterate's coordinate is negative, r^2 where it is not
    BY_DATA     r^4 where the example's coordinate is negative, r^2 where it is not
"""

import numpy as np

from gradorder.sklearn.compilation import compiled

BOTH, BY_ITERATE, BY_DATA = 0, 1, 2


@compiled
def _powers(pull: int, iterate: float, target: float) -> tuple[bool, bool]:  # pragma: no cover - compiled
    """Whether the quartic counts, whether the quadratic counts."""
    if pull == BOTH:
        return True, True
    is_negative = (iterate if pull == BY_ITERATE else target) < 0
    return is_negative, not is_negative


@compiled
def _residual(directions: np.ndarray, targets: np.ndarray, w: np.ndarray, i: int, j: int) -> float:
    total: float = -targets[i, j]
    for k in range(w.shape[0]):
        total += directions[i, j, k] * w[k]
    return total


@compiled
def _slope(pull: int, residual: float, iterate: float, target: float) -> float:
    quartic, quadratic = _powers(pull, iterate, target)
    return quartic * 4.0 * residual**3 + quadratic * 2.0 * residual


@compiled
def losses(pull: int, directions: np.ndarray, targets: np.ndarray, w: np.ndarray) -> np.ndarray:
    """f_i(w) of every example, (n,)."""
    values = np.zeros(directions.shape[0])
    for i in range(directions.shape[0]):
        for j in range(directions.shape[1]):
            residual = _residual(directions, targets, w, i, j)
            quartic, quadratic = _powers(pull, w[j], targets[i, j])
            values[i] += quartic * residual**4 + quadratic * residual**2
    return values


@compiled
def gradients(pull: int, directions: np.ndarray, targets: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The gradient of every f_i at w, (n, d)."""
    values = np.zeros((directions.shape[0], w.shape[0]))
    for i in range(directions.shape[0]):
        for j in range(directions.shape[1]):
            slope = _slope(pull, _residual(directions, targets, w, i, j), w[j], targets[i, j])
            for k in range(w.shape[0]):
                values[i, k] += slope * directions[i, j, k]
    return values


@compiled
def example_norms(pull: int, directions: np.ndarray, targets: np.ndarray, w: np.ndarray) -> np.ndarray:
    """||M_i|| of every example at w, (n,)."""
    values = gradients(pull, directions, targets, w)
    norms = np.zeros(values.shape[0])
    for i in range(values.shape[0]):
        for k in range(values.shape[1]):
            norms[i] += values[i, k] ** 2
        norms[i] = np.sqrt(norms[i])
    return norms


@compiled
def descend(  # noqa: PLR0917 - compiled functions take their arguments by position
    pull: int,
    directions: np.ndarray,
    targets: np.ndarray,
    w: np.ndarray,
    order: np.ndarray,
    step_sizes: np.ndarray,
) -> None:
    """One update of w, in place, for each example of the order: w <- w - a_t grad f_i(w)."""
    slopes = np.empty(directions.shape[1])
    for t in range(order.shape[0]):
        i = order[t]
        for j in range(directions.shape[1]):
            slopes[j] = _slope(pull, _residual(directions, targets, w, i, j), w[j], targets[i, j])
        for j in range(directions.shape[1]):
            for k in range(w.shape[0]):
                w[k] -= step_sizes[t] * slopes[j] * directions[i, j, k]

"""What the order of the examples does at a constant step size: the first term that depends on it."""

import numpy as np
from numpy.typing import ArrayLike

from gradorder_lab.theory import arrays
from gradorder_lab.theory.arrays import Array


def second_order_shift(hessians: ArrayLike, start_gradients: ArrayLike) -> Array:
    """sum_{j < i} H_i M_j, shape (d,): where the order moves the end of an epoch, in units of a^2.

    With a constant step size a, x_{k+1} = x_k - a sum_i M_i + a^2 sum_{j < i} H_i M_j + O(a^3): the last sum is the
    only one of these that depends on the order, and it changes ||x_{k+1} - x*||^2 by 2 a^2 (x_k - x*) times it.

    Args:
        hessians: H_i, the Hessian of f_i at x_k, in visiting order, shape (n, d, d).
        start_gradients: M_i, in visiting order, shape (n, d).

    Raises:
        ValueError: if a shape is wrong or a number is not finite.

    Example:
        >>> second_order_shift([[[2.0]], [[5.0]]], [[1.0], [-3.0]]).tolist()  # H_2 M_1
        [5.0]
    """
    gradients = arrays.finite("start_gradients", start_gradients, (None, None))
    num_steps, size = gradients.shape
    bends = arrays.finite("hessians", hessians, (num_steps, size, size))
    before = np.cumsum(gradients, axis=0) - gradients
    return np.asarray(np.einsum("iab,ib->a", bends, before), dtype=np.float64)

"""How unevenly gradient norms are spread, and what a score knows of it. Arrays of shape (N,), float64."""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FLOOR: Final = 0.1
"""What every example's score is raised by before it is drawn, as a part of the mean score."""


def variation(norms: Array) -> float:
    """The coefficient of variation, standard deviation / mean; 0 where all are zero."""
    mean = float(norms.mean())
    return float(norms.std()) / mean if mean > 0 else 0.0


def harder_half_share(norms: Array) -> float:
    """The part of the sum that the larger half (rounded up) holds; its part of the examples where all are zero."""
    half = math.ceil(len(norms) / 2)
    total = float(norms.sum())
    return float(np.sort(norms)[::-1][:half].sum()) / total if total > 0 else half / len(norms)


def effective_share(norms: Array) -> float:
    """mean(norm)^2 / mean(norm^2), the effective sample size over N: 1 where all are equal, 1 / N where one has all."""
    largest = float(norms.max())
    if largest == 0:
        return 1.0
    relative = norms / largest
    return float(relative.mean() ** 2 / (relative**2).mean())


def gain(norms: Array, scores: Array) -> float:
    """By how much drawing by the scores, with weights, lowers the second moment of the gradient.

    Drawn with probabilities p_i and weighted by 1 / (N p_i), a gradient g has E ||g||^2 = sum_i ||g_i||^2 / (N^2 p_i).
    Here p_i is proportional to s_i = score_i + mean(score) / 10, so that a score of zero does no harm where a little
    gradient is left; uniform over that is mean(norm^2) / (mean(s) mean(norm^2 / s)). Below 1 the draw is worse than
    uniform. It is below 1 / effective_share(norms) for any scores. Nothing can be drawn by negative scores: 0 then.
    """
    if (scores < 0).any():
        return 0.0
    if not norms.any() or not scores.any():
        return 1.0
    squares = (norms / norms.max()) ** 2
    drawn = scores / scores.max()
    drawn = drawn + FLOOR * drawn.mean()
    return float(squares.mean() / (drawn.mean() * (squares / drawn).mean()))


def rank_correlation(first: Array, second: Array) -> float | None:
    """Spearman's rank correlation, equal values sharing their mean rank; None where one is constant."""
    ranks = [_mean_ranks(values) - (len(values) - 1) / 2 for values in (first, second)]
    lengths = [float(np.sqrt((centred**2).sum())) for centred in ranks]
    if min(lengths) == 0:
        return None
    return float((ranks[0] * ranks[1]).sum()) / (lengths[0] * lengths[1])


def _mean_ranks(values: Array) -> Array:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: NDArray[Any] = (ends - (counts + 1) / 2)[places]
    return ranks.astype(np.float64)

"""Losses of one example and their slopes."""

import math

from gradorder.sklearn.compiled.decorators import Array, inlined, part
from gradorder.sklearn.compiled.rule import HINGE, LOG_LOSS, MODIFIED_HUBER, QUARTIC, SQUARED_ERROR


@inlined
def loss_and_slope(  # noqa: PLR0911 - one for each branch of each loss
    loss: int, prediction: float, target: float, epsilon: float
) -> tuple[float, float, float]:
    """The loss of one example and its derivative with respect to the prediction; classes are -1 and 1.

    The loss comes as two numbers, a and b of a + log(b): logarithms of many examples can be had as that of a product.
    """
    margin, residual = prediction * target, prediction - target
    if loss == LOG_LOSS:
        small = math.exp(-abs(margin))
        return max(0.0, -margin), 1.0 + small, -target * (small if margin > 0.0 else 1.0) / (1.0 + small)
    if loss == HINGE:
        return max(0.0, 1.0 - margin), 1.0, -target if margin <= 1.0 else 0.0
    if loss == MODIFIED_HUBER:
        if margin < -1.0:
            return -4.0 * margin, 1.0, -4.0 * target
        missing = max(0.0, 1.0 - margin)
        return missing * missing, 1.0, -2.0 * target * missing
    square = residual * residual
    if loss == SQUARED_ERROR:
        return 0.5 * square, 1.0, residual
    if loss == QUARTIC:
        return square * square + square, 1.0, 4.0 * residual * square + 2.0 * residual
    if abs(residual) <= epsilon:
        return 0.5 * square, 1.0, residual
    return epsilon * abs(residual) - 0.5 * epsilon * epsilon, 1.0, math.copysign(epsilon, residual)


@part
def softmax_in_place(logits: Array, target: float) -> float:
    """Logits become probabilities minus one-hot; returns the cross-entropy loss."""
    label, highest = int(target), logits[0]
    for k in range(1, len(logits)):
        highest = max(highest, logits[k])
    own = logits[label] - highest
    total = 0.0
    for k in range(len(logits)):
        logits[k] = math.exp(logits[k] - highest)
        total += logits[k]
    for k in range(len(logits)):
        logits[k] /= total
    logits[label] -= 1.0
    return math.log(total) - float(own)

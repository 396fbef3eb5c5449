"""How to train, in numbers: one compiled loop serves every choice of them."""

import math
from typing import NamedTuple

import numpy as np

from gradorder.sklearn.compiled.decorators import Array, inlined

SQUARED_ERROR, HUBER, QUARTIC, LOG_LOSS, HINGE, MODIFIED_HUBER, MULTINOMIAL = range(7)
SEQUENTIAL, SHUFFLED, SHUFFLED_ONCE, DESCENDING, ASCENDING, GIVEN_ORDER = range(6)
CONSTANT, INVERSE_PER_STEP, INVERSE_SQRT_PER_STEP, INVERSE_PER_EPOCH, INVERSE_SQRT_PER_EPOCH, GIVEN_SIZES = range(6)


class Rule(NamedTuple):
    """How to train."""

    loss: int
    epsilon: float
    l2: float
    l1: float
    fit_intercept: bool
    order: int
    flip_flop: bool
    batch_size: int
    """0 for Algorithm 1."""
    keep: float
    start_epoch: int
    schedule: int
    a: float
    scale: float
    since: int
    first_averaged: int
    """The first step whose weights count in the average."""
    key: np.uint64
    tol: float
    """-inf to train for all epochs."""
    patience: int


@inlined
def step_size(rule: Rule, sizes: Array, position: int, step: int, epoch: int) -> float:
    """The step size of one update, the formulas of `gradorder.schedules`; `position` is the step within the epoch."""
    if rule.schedule == GIVEN_SIZES:
        return float(sizes[position])
    if rule.schedule == CONSTANT:
        return rule.a
    count = step if rule.schedule <= INVERSE_SQRT_PER_STEP else epoch
    if count >= rule.since:
        count -= rule.since
    if rule.schedule == INVERSE_PER_STEP:
        return rule.a / (1 + count / rule.scale)
    if rule.schedule == INVERSE_PER_EPOCH:
        return rule.a / (1 + count)
    return rule.a / math.sqrt(1 + count / rule.scale)

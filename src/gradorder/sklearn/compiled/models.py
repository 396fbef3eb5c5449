"""The weights under way: one output and a plain penalty, or all that a linear model may have."""

import math
from typing import Any, NamedTuple

import numpy as np

from gradorder.sklearn.compiled.decorators import (
    INLINED,
    Array,
    MatrixRows,
    chosen_by_type,
    in_sequence,
    inlined,
    is_sparse,
    part,
)
from gradorder.sklearn.compiled.losses import loss_and_slope, softmax_in_place
from gradorder.sklearn.compiled.rule import MULTINOMIAL, Rule
from gradorder.sklearn.compiled.vectors import vector_dot

# Places in `numbers`, where the loop keeps what must outlive a call.
SCALE, SQUARED_NORM, L1_NORM, LOSSES, EXAMPLE_WEIGHTS, PENALTIES, BEST, NUM_WITHOUT_PROGRESS, THRESHOLD, AVERAGED = (
    range(10)
)
NUM_NUMBERS = 10

# Columns of `examples`, one row per example: together, as they are read together and in no order.
TARGET, WEIGHT, SQUARED_LENGTH, SCORE_FACTOR = range(4)

SMALLEST_SCALE = 1e-6  # and not much smaller: sums of scaled weights cancel in the average

Kind = Any
"""A type of numba."""
State = Any
"""A `Plain` or a `Full`."""


class Plain(NamedTuple):
    """One output, trained without an L1 penalty and without an average."""

    weights: Array
    """(d,), padded with zeros to whole vectors. The weights of the model are these times numbers[SCALE], so that
    shrinking them all takes one multiplication."""
    intercepts: Array
    numbers: Array


class Full(NamedTuple):
    """K outputs, an L1 penalty, an average."""

    weights: Array
    """(d * K,), those of one feature together; to be multiplied with numbers[SCALE]."""
    intercepts: Array
    numbers: Array
    outputs: Array
    """(K,): outputs, and then the slopes of the loss by them."""
    penalised: Array
    """(d * K,): the L1 penalty that each weight has had so far, of the numbers[THRESHOLD] that it should have had."""
    missing: Array
    """(d * K,): the sum of the averaged weights is numbers[AVERAGED] * weights - missing."""
    intercept_sums: Array


def is_plain(model: Kind) -> bool:
    """Whether this type is that of a `Plain`."""
    return bool(model.instance_class is Plain)


# Entries of a row -------------------------------------------------------------------------------------------------


def bounds(rows: MatrixRows, i: int) -> tuple[int, int]:
    """The first entry of a row, and the first that is none."""
    raise NotImplementedError("only as a part of compiled functions")


def entry(rows: MatrixRows, i: int, k: int) -> tuple[int, float]:
    """Column and value of an entry."""
    raise NotImplementedError("only as a part of compiled functions")


@chosen_by_type(bounds, **INLINED)
def _choose_bounds(rows: Kind, i: Kind) -> Kind:  # noqa: ARG001
    if is_sparse(rows):
        return lambda rows, i: (rows[2][i], rows[2][i + 1])
    return lambda rows, i: (0, rows.shape[1])  # noqa: ARG005


@chosen_by_type(entry, **INLINED)
def _choose_entry(rows: Kind, i: Kind, k: Kind) -> Kind:  # noqa: ARG001
    if is_sparse(rows):
        return lambda rows, i, k: (rows[1][k], rows[0][k])  # noqa: ARG005
    return lambda rows, i, k: (k, rows[i, k])


# Outputs and scores -----------------------------------------------------------------------------------------------


@in_sequence
def sparse_dot(values: Array, columns: Array, weights: Array, begin: int, end: int) -> float:
    """weights.x of the entries begin..end of a CSR matrix, in two sums."""
    even, odd = 0.0, 0.0
    k = begin
    while k + 1 < end:
        even += weights[np.uint32(columns[k])] * values[k]  # unsigned: it is never counted from the end
        odd += weights[np.uint32(columns[k + 1])] * values[k + 1]
        k += 2
    if k < end:
        even += weights[np.uint32(columns[k])] * values[k]
    return even + odd


@part
def fill_outputs(rows: MatrixRows, model: Full, i: int) -> None:
    """W x_i + b into model.outputs."""
    outputs, weights = model.outputs, model.weights
    for c in range(len(outputs)):
        outputs[c] = 0.0
    begin, end = bounds(rows, i)
    for k in range(begin, end):
        column, value = entry(rows, i, k)
        first = column * len(outputs)
        for c in range(len(outputs)):
            outputs[c] += value * weights[first + c]
    for c in range(len(outputs)):
        outputs[c] = model.numbers[SCALE] * outputs[c] + model.intercepts[c]


@part
def slopes_in_place(outputs: Array, target: float, rule: Rule) -> float:
    """Outputs become the slopes of the loss by them; returns the loss."""
    if rule.loss == MULTINOMIAL:
        return float(softmax_in_place(outputs, target))
    loss, factor, outputs[0] = loss_and_slope(rule.loss, outputs[0], target, rule.epsilon)
    return loss + math.log(factor)


def fill_scores(rows: MatrixRows, examples: Array, model: State, rule: Rule, order: Array, scores: Array) -> None:  # noqa: PLR0917 - a compiled function takes no keywords
    """scores[k] = ||M_i||, i = order[k]: the exact norm of the gradient of the weighted example's loss.

    The penalty has no part in it, as in the paper. Arrays are unpacked before the loop: in it, their references would
    be counted.
    """
    raise NotImplementedError("only as a part of compiled functions")


@inlined
def _score(prediction: float, examples: Array, i: int, rule: Rule) -> float:
    slope = loss_and_slope(rule.loss, prediction, examples[i, TARGET], rule.epsilon)[2]
    return abs(slope) * float(examples[i, SCORE_FACTOR])


def _fill_dense(rows: Array, examples: Array, model: Plain, rule: Rule, order: Array, scores: Array) -> None:  # noqa: PLR0917
    weights, intercept = model.weights, model.intercepts[0]
    for k in range(len(order)):
        scores[k] = _score(vector_dot(weights, rows, order[k]) + intercept, examples, order[k], rule)


def _fill_sparse(rows: MatrixRows, examples: Array, model: Plain, rule: Rule, order: Array, scores: Array) -> None:  # noqa: PLR0917
    values, columns, starts = rows
    weights, intercept, scale = model.weights, model.intercepts[0], model.numbers[SCALE]
    for k in range(len(order)):
        i = order[k]
        product = scale * sparse_dot(values, columns, weights, starts[i], starts[i + 1])
        scores[k] = _score(product + intercept, examples, i, rule)


def _fill_full(rows: MatrixRows, examples: Array, model: Full, rule: Rule, order: Array, scores: Array) -> None:  # noqa: PLR0917
    slopes = model.outputs
    for k in range(len(order)):
        fill_outputs(rows, model, order[k])
        slopes_in_place(slopes, examples[order[k], TARGET], rule)
        total = 0.0
        for c in range(len(slopes)):
            total += slopes[c] * slopes[c]
        scores[k] = math.sqrt(total) * examples[order[k], SCORE_FACTOR]


@chosen_by_type(fill_scores)
def _choose_fill(rows: Kind, examples: Kind, model: Kind, rule: Kind, order: Kind, scores: Kind) -> Kind:  # noqa: ARG001, PLR0917
    if not is_plain(model):
        return _fill_full
    return _fill_sparse if is_sparse(rows) else _fill_dense


# The scale --------------------------------------------------------------------------------------------------------


def unscale(model: State) -> None:
    """The weights as they are, with a scale of one."""
    raise NotImplementedError("only as a part of compiled functions")


def _unscale_plain(model: Plain) -> None:
    weights, numbers = model.weights, model.numbers
    if numbers[SCALE] != 1.0:
        for j in range(len(weights)):
            weights[j] *= numbers[SCALE]
        numbers[SCALE] = 1.0


def _unscale_full(model: Full) -> None:
    weights, missing, numbers = model.weights, model.missing, model.numbers
    for j in range(len(missing)):
        missing[j] -= numbers[AVERAGED] * weights[j]
    for j in range(len(weights)):
        weights[j] *= numbers[SCALE]
    numbers[AVERAGED], numbers[SCALE] = 0.0, 1.0


@chosen_by_type(unscale)
def _choose_unscale(model: Kind) -> Kind:
    return _unscale_plain if is_plain(model) else _unscale_full


@inlined
def shrink(model: State, factor: float) -> None:
    """All weights times a factor."""
    model.numbers[SCALE] *= factor
    if model.numbers[SCALE] < SMALLEST_SCALE:
        unscale(model)

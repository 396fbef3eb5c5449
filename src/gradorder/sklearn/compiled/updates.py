"""Updates on a sequence of examples, one at a time."""

import math

import numpy as np

from gradorder.sklearn.compiled.decorators import Array, MatrixRows, chosen_by_type, inlined, is_sparse
from gradorder.sklearn.compiled.losses import loss_and_slope
from gradorder.sklearn.compiled.models import (
    AVERAGED,
    EXAMPLE_WEIGHTS,
    L1_NORM,
    LOSSES,
    PENALTIES,
    SCALE,
    SMALLEST_SCALE,
    SQUARED_LENGTH,
    SQUARED_NORM,
    TARGET,
    THRESHOLD,
    WEIGHT,
    Full,
    Plain,
    State,
    bounds,
    entry,
    fill_outputs,
    is_plain,
    shrink,
    slopes_in_place,
    sparse_dot,
)
from gradorder.sklearn.compiled.rule import Rule, step_size
from gradorder.sklearn.compiled.vectors import advance, prefetch, vector_dot

_LINE = 64  # bytes
_AHEAD = 8
_FITS_CACHE = 2**17  # numbers; rows of a matrix up to this size need not be asked for ahead of time
_LARGEST_FACTORS = 1e300


def train(  # noqa: PLR0917 - a compiled function takes no keywords
    rows: MatrixRows,
    examples: Array,
    model: State,
    rule: Rule,
    sequence: Array,
    sizes: Array,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> int:
    """Update on the examples sequence[begin:end], one at a time; step numbers are first_step + position.

    Returns the position it reached: `end`, or where a prediction was no longer finite.
    """
    raise NotImplementedError("only as a part of compiled functions")


@inlined
def not_finite(number: float) -> bool:
    """Also where the compiler may reorder sums."""
    return not abs(number) < np.inf


@inlined
def _add_loss(  # noqa: PLR0917 - a compiled function takes no keywords
    loss: float, factor: float, weight: float, loss_sum: float, factors: float, factors_weight: float
) -> tuple[float, float, float]:
    """Add weight * (loss + log(factor)) to a sum; the logarithm is taken of products of many factors of one weight."""
    if weight != factors_weight or factors > _LARGEST_FACTORS:
        loss_sum += factors_weight * math.log(factors)
        factors, factors_weight = 1.0, weight
    return loss_sum + weight * loss, factors * factor, factors_weight


# Dense rows, one output -------------------------------------------------------------------------------------------


@inlined
def _prefetch_row(rows: Array, examples: Array, i: int) -> None:
    prefetch(examples, (i, 0))
    for j in range(0, rows.shape[1], _LINE // rows.itemsize):
        prefetch(rows, (i, j))


def _train_dense(  # noqa: PLR0917 - a compiled function takes no keywords
    rows: Array, examples: Array, model: Plain, rule: Rule, sequence: Array, sizes: Array, begin: int, end: int,
    first_step: int, epoch: int,
) -> int:  # fmt: skip
    weights, numbers = model.weights, model.numbers
    intercept, norm = model.intercepts[0], numbers[SQUARED_NORM]
    loss_sum, weight_sum, norm_sum = 0.0, 0.0, 0.0
    factors, factors_weight = 1.0, 0.0
    # What is done to the weights in one step is made up for in the next: w <- kept * w + update * x_previous. Products
    # are those of the weights, and of x_previous, with the example to come.
    kept, update, previous = 1.0, 0.0, sequence[begin]
    product, cross = vector_dot(weights, rows, previous), 0.0
    num_ahead = _AHEAD if rows.size > _FITS_CACHE else 0
    position = begin
    while position < end:
        i = sequence[position]
        if num_ahead > 0:
            _prefetch_row(rows, examples, sequence[min(position + num_ahead, end - 1)])
        product = kept * product + update * cross
        prediction = product + intercept
        if not_finite(prediction):
            break
        following = sequence[min(position + 1, end - 1)]
        next_product, cross = advance(weights, rows, previous, i, following, kept, update)
        size = step_size(rule, sizes, position, first_step + position, epoch)
        weight = examples[i, WEIGHT]
        loss, factor, slope = loss_and_slope(rule.loss, prediction, examples[i, TARGET], rule.epsilon)
        loss_sum, factors, factors_weight = _add_loss(loss, factor, weight, loss_sum, factors, factors_weight)
        weight_sum += weight
        norm_sum += norm
        update = (-size * weight) * slope  # the slope comes last, and all else waits for it
        kept = max(0.0, 1.0 - size * rule.l2)
        norm = kept * kept * norm + update * (2.0 * kept * product + update * examples[i, SQUARED_LENGTH])
        if rule.fit_intercept:
            intercept += update
        product, previous = next_product, i
        position += 1
    advance(weights, rows, previous, previous, previous, kept, update)
    model.intercepts[0], numbers[SQUARED_NORM] = intercept, norm
    numbers[LOSSES] += loss_sum + factors_weight * math.log(factors)
    numbers[EXAMPLE_WEIGHTS] += weight_sum
    numbers[PENALTIES] += 0.5 * rule.l2 * norm_sum
    return position


# Sparse rows, one output ------------------------------------------------------------------------------------------


@inlined
def _prefetch_entries(rows: MatrixRows, examples: Array, i: int) -> None:
    values, columns, starts = rows
    prefetch(examples, (i, 0))
    for k in range(starts[i], starts[i + 1], _LINE // values.itemsize):
        prefetch(values, (k,))
    for k in range(starts[i], starts[i + 1], _LINE // columns.itemsize):
        prefetch(columns, (k,))


def _train_sparse(  # noqa: PLR0917 - a compiled function takes no keywords
    rows: MatrixRows, examples: Array, model: Plain, rule: Rule, sequence: Array, sizes: Array, begin: int, end: int,
    first_step: int, epoch: int,
) -> int:  # fmt: skip
    values, columns, starts = rows
    weights, numbers = model.weights, model.numbers
    intercept, norm, scale = model.intercepts[0], numbers[SQUARED_NORM], numbers[SCALE]
    loss_sum, weight_sum, norm_sum = 0.0, 0.0, 0.0
    factors, factors_weight = 1.0, 0.0
    num_ahead = _AHEAD if len(values) > _FITS_CACHE else 0
    position = begin
    while position < end:
        i = sequence[position]
        if num_ahead > 0:
            _prefetch_entries(rows, examples, sequence[min(position + num_ahead, end - 1)])
        first, last = starts[i], starts[i + 1]
        product = scale * sparse_dot(values, columns, weights, first, last)
        prediction = product + intercept
        if not_finite(prediction):
            break
        size = step_size(rule, sizes, position, first_step + position, epoch)
        weight = examples[i, WEIGHT]
        kept = max(0.0, 1.0 - size * rule.l2)
        scale *= kept
        if scale < SMALLEST_SCALE:
            for j in range(len(weights)):
                weights[j] *= scale
            scale = 1.0
        step = -size * weight / scale
        loss, factor, slope = loss_and_slope(rule.loss, prediction, examples[i, TARGET], rule.epsilon)
        update = step * slope
        if update != 0.0:
            for k in range(first, last):
                weights[np.uint32(columns[k])] += update * values[k]
        update *= scale
        if rule.fit_intercept:
            intercept += update
        loss_sum, factors, factors_weight = _add_loss(loss, factor, weight, loss_sum, factors, factors_weight)
        weight_sum += weight
        norm_sum += norm
        norm = kept * kept * norm + update * (2.0 * kept * product + update * examples[i, SQUARED_LENGTH])
        position += 1
    model.intercepts[0], numbers[SQUARED_NORM], numbers[SCALE] = intercept, norm, scale
    numbers[LOSSES] += loss_sum + factors_weight * math.log(factors)
    numbers[EXAMPLE_WEIGHTS] += weight_sum
    numbers[PENALTIES] += 0.5 * rule.l2 * norm_sum
    return position


# Any rows, any number of outputs, L1 penalty, average -------------------------------------------------------------


def _train_full(  # noqa: PLR0917 - a compiled function takes no keywords
    rows: MatrixRows, examples: Array, model: Full, rule: Rule, sequence: Array, sizes: Array, begin: int, end: int,
    first_step: int, epoch: int,
) -> int:  # fmt: skip
    numbers, outputs = model.numbers, model.outputs
    for position in range(begin, end):
        i = sequence[position]
        fill_outputs(rows, model, i)
        for c in range(len(outputs)):
            if not_finite(outputs[c]):
                return position
        size, weight = step_size(rule, sizes, position, first_step + position, epoch), examples[i, WEIGHT]
        numbers[LOSSES] += weight * slopes_in_place(outputs, examples[i, TARGET], rule)
        numbers[EXAMPLE_WEIGHTS] += weight
        numbers[PENALTIES] += 0.5 * rule.l2 * numbers[SQUARED_NORM] + rule.l1 * numbers[L1_NORM]
        kept = max(0.0, 1.0 - size * rule.l2)
        numbers[SQUARED_NORM] *= kept * kept
        numbers[L1_NORM] *= kept
        shrink(model, kept)
        numbers[THRESHOLD] += size * rule.l1
        for c in range(len(outputs)):
            outputs[c] *= -size * weight
        _add_row(rows, model, rule, i)
        if rule.fit_intercept:
            for c in range(len(outputs)):
                model.intercepts[c] += outputs[c]
        if first_step + position >= rule.first_averaged:
            numbers[AVERAGED] += numbers[SCALE]
            for c in range(len(outputs)):
                model.intercept_sums[c] += model.intercepts[c]
    return end


@inlined
def _add_row(rows: MatrixRows, model: Full, rule: Rule, i: int) -> None:
    """Each output's update, in `outputs`, times x_i added to the weights; these then catch up with the L1 penalty."""
    numbers, outputs, weights = model.numbers, model.outputs, model.weights
    scale, squares, absolutes = numbers[SCALE], 0.0, 0.0
    is_averaged = numbers[AVERAGED] > 0.0
    begin, end = bounds(rows, i)
    for k in range(begin, end):
        column, value = entry(rows, i, k)
        if value != 0.0:  # as in a sparse row, so that dense and sparse give the same model
            for c in range(len(outputs)):
                place = column * len(outputs) + c
                before = weights[place]
                after = before + outputs[c] / scale * value
                if rule.l1 > 0.0:
                    after = _penalised(after, scale, numbers[THRESHOLD], model.penalised, place)
                weights[place] = after
                squares += after * after - before * before
                absolutes += abs(after) - abs(before)
                if is_averaged:
                    model.missing[place] += numbers[AVERAGED] * (after - before)
    numbers[SQUARED_NORM] += scale * scale * squares
    numbers[L1_NORM] += scale * absolutes


@inlined
def _penalised(weight: float, scale: float, threshold: float, penalised: Array, place: int) -> float:
    """The weight moved towards zero, and not beyond, by the penalty that it still owes (Tsuruoka and others, 2009)."""
    after = weight
    if weight > 0.0:
        after = max(0.0, weight - (threshold + penalised[place]) / scale)
    elif weight < 0.0:
        after = min(0.0, weight + (threshold - penalised[place]) / scale)
    penalised[place] += scale * (after - weight)
    return after


@chosen_by_type(train)
def _choose_train(rows, examples, model, rule, sequence, sizes, begin, end, first_step, epoch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001, PLR0917 - types of numba
    if not is_plain(model):
        return _train_full
    return _train_sparse if is_sparse(rows) else _train_dense

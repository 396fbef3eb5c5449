"""The compiled training loop: losses, scores, orders and updates, one example at a time (Algorithms 1 and 2).

All that is compiled, but for `vectors.py`, stands in this one file, because numba looks only at a function's own file
to see whether what it has cached is still true. The slow and obvious version of the same is `reference.py`.

A data set is `rows`: a C-contiguous matrix (n, d), or the three arrays of a CSR matrix as a tuple. A model is
`weights` of shape (d,) with one intercept, or, for the softmax over K classes, of shape (K, d), with CSR rows (d, K),
and K intercepts. What depends on these shapes is chosen when numba compiles for them (`overload`), the rest is shared.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import literal_unroll, types
from numba.extending import overload

from gradorder.compilation import compiled
from gradorder.parts import ROUNDING
from gradorder.sklearn.vectors import FLAGS, advance, prefetch, vector_dot

Array = np.ndarray[Any, Any]
Rows = Any
"""A matrix, or the three arrays of a CSR matrix."""
F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Any = {"fastmath": set(FLAGS), "error_model": "numpy", "boundscheck": False}

SQUARED_ERROR, HUBER, QUARTIC, LOG_LOSS, HINGE, MULTINOMIAL = range(6)
SEQUENTIAL, RANDOM, RANDOM_ONCE, DESCENDING, ASCENDING, GIVEN_ORDER = range(6)
CONSTANT, INVERSE_PER_STEP, INVERSE_SQRT_PER_STEP, INVERSE_PER_EPOCH, INVERSE_SQRT_PER_EPOCH, GIVEN_SIZES = range(6)
FINISHED, CONVERGED, DIVERGED = range(3)

_SMALLEST_SCALE = 1e-9
_LINE = 64  # bytes
_AHEAD = 8
_FITS_CACHE = 2**17  # numbers; rows of a matrix up to this size need not be asked for ahead of time
_LARGEST_FACTORS = 1e300
_LARGEST_MARGIN = 700.0
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
_FACTORIALS = tuple(float(math.factorial(k)) for k in range(12, -1, -1))


def _compiled(function: F) -> F:
    """Compiled with the options of this file."""
    return compiled(function, **_OPTIONS)


def _inlined(function: F) -> F:
    """As `_compiled`, for what a hot loop must not call: whether it is inlined is not left to chance."""
    return compiled(function, forceinline=True, **_OPTIONS)


def _chosen_by_type(stub: Callable[..., Any]) -> Callable[[F], F]:
    """Numba's `overload` with the options of this file, typed."""
    decorate: Callable[[F], F] = overload(stub, jit_options=_OPTIONS)
    return decorate


class Rule(NamedTuple):
    """How to train: numbers only, so that one compiled loop serves every choice of them."""

    loss: int
    epsilon: float
    alpha: float
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
    key: np.uint64
    tol: float
    """-inf to train for all epochs."""
    patience: int


class Examples(NamedTuple):
    """What is trained on, beside the rows: one number per example."""

    targets: Array
    weights: Array
    squared_norms: Array
    score_factors: Array
    """weight_i sqrt(||x_i||^2 + 1), without the 1 where there is no intercept: the score is this times the slope."""


class Scratch(NamedTuple):
    """Room for the order of an epoch; what must survive between calls as well (the last sequence and its length)."""

    order: Array
    sequence: Array
    length: Array
    scores: Array
    keys: Array
    spare_keys: Array
    spare_order: Array
    places: Array
    counts: Array
    sizes: Array
    """The step sizes of the epoch where the rule has no formula for them."""


class State(NamedTuple):
    """The model and how far it is trained; changed in place."""

    weights: Array
    intercepts: Array
    scale: Array
    """The weights are scale[0] * weights: shrinking them all takes one multiplication."""
    squared_norm: Array
    sums: Array
    """Of the epoch: weighted losses, example weights, penalties."""
    pending: Array
    """One number per output: the update under way, or the logits."""
    products: Array
    """w_c.x of each output."""
    stopping: Array
    """The best objective so far and the number of epochs without progress."""


class Job(NamedTuple):
    """All that the loop works on."""

    rows: Rows
    examples: Examples
    state: State
    rule: Rule
    scratch: Scratch


# Losses ---------------------------------------------------------------------------------------------------------


@_inlined
def slope_of(loss: int, prediction: float, target: float, epsilon: float) -> float:
    """The derivative of the loss with respect to the prediction."""
    return loss_and_slope(loss, prediction, target, epsilon)[2]


@_inlined
def loss_and_slope(loss: int, prediction: float, target: float, epsilon: float) -> tuple[float, float, float]:
    """The loss of one example and its derivative with respect to the prediction; classes are -1 and 1.

    The loss comes as two numbers, a and b of a + log(b): logarithms of many examples can be had as that of a product.
    """
    if loss == LOG_LOSS:
        margin = prediction * target
        small = math.exp(-abs(margin))
        return max(0.0, -margin), 1.0 + small, -target * (small if margin > 0.0 else 1.0) / (1.0 + small)
    if loss == HINGE:
        margin = prediction * target
        return max(0.0, 1.0 - margin), 1.0, -target if margin <= 1.0 else 0.0
    residual = prediction - target
    square = residual * residual
    if loss == SQUARED_ERROR:
        return 0.5 * square, 1.0, residual
    if loss == QUARTIC:
        return square * square + square, 1.0, 4.0 * residual * square + 2.0 * residual
    if abs(residual) <= epsilon:
        return 0.5 * square, 1.0, residual
    return epsilon * abs(residual) - 0.5 * epsilon * epsilon, 1.0, math.copysign(epsilon, residual)


@_compiled
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


# Step sizes -----------------------------------------------------------------------------------------------------


@_inlined
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
    return rule.a / math.sqrt(1 + count)


# Random orders --------------------------------------------------------------------------------------------------

_GOLDEN, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LOW_HALF, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@_inlined
def mixed(number: np.uint64) -> np.uint64:
    """SplitMix64's output function: every bit of the number spread over all 64."""
    number = (number ^ (number >> np.uint64(30))) * _FIRST
    number = (number ^ (number >> np.uint64(27))) * _SECOND
    return number ^ (number >> np.uint64(31))


@_compiled
def shuffle(order: Array, num_examples: int, key: np.uint64, epoch: int) -> None:
    """A permutation of range(num_examples) that is a function of key and epoch alone (Fisher and Yates).

    Every epoch draws from a SplitMix64 stream of its own; Lemire's rejection keeps it free of bias.
    """
    for i in range(num_examples):
        order[i] = i
    state = mixed(key ^ mixed(np.uint64(epoch) + _GOLDEN))
    for i in range(num_examples - 1, 0, -1):
        num_choices = np.uint64(i + 1)
        state += _GOLDEN
        product = (mixed(state) >> _HALF) * num_choices
        if (product & _LOW_HALF) < num_choices:
            threshold = ((_LOW_HALF + np.uint64(1)) - num_choices) % num_choices
            while (product & _LOW_HALF) < threshold:
                state += _GOLDEN
                product = (mixed(state) >> _HALF) * num_choices
        j = np.int64(product >> _HALF)
        order[i], order[j] = order[j], order[i]


# Sorted orders --------------------------------------------------------------------------------------------------

NUM_COUNTS = 2048
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_NUM_FOR_LARGE_DIGITS = 4096
_MOST_MOVES = 8  # by insertion, per example, before sorting by all bits is faster


@_compiled
def argsort(num: int, descending: bool, order: Array, scratch: Scratch) -> None:
    """The stable sorting permutation of scratch.scores[:num], none of them negative or NaN, into order[:num].

    Bits of a positive float compare as the float does; zeros, which the hinge loss has many of, are set apart. Two
    counting passes sort by the upper bits of the range; what these leave equal is nearly in place, and insertion
    finishes it. Where too much is left, as with many scores that differ in their last bits only, eight passes sort by
    all 64 bits.
    """
    num_zeros, span = _fill_keys(num, descending, order, scratch)
    num -= num_zeros
    keys, positive = scratch.keys, order[:num] if descending else order[num_zeros:]
    digit = 11 if num >= _NUM_FOR_LARGE_DIGITS else 8
    shift = 0
    while (span >> np.uint64(shift)) >> np.uint64(2 * digit) > 0:
        shift += 1
    first, last = shift, shift
    while True:
        for low in range(first, last + 1, 2 * digit):
            _counting_pass(keys, positive, scratch.spare_keys, scratch.spare_order, num, low, digit, scratch.counts)
            _counting_pass(
                scratch.spare_keys, scratch.spare_order, keys, positive, num, low + digit, digit, scratch.counts
            )
        if first == 0 or _insertion_sorted(keys, positive, num, _MOST_MOVES * num):
            return
        first, last, digit = 0, 48, 8  # stable, so what is sorted in part may be sorted again


@_compiled
def _fill_keys(num: int, descending: bool, order: Array, scratch: Scratch) -> tuple[int, np.uint64]:
    """Whole numbers from 0 on that sort as the positive scores do, and zeros in their place of the order.

    Returns the number of zeros and the largest key.
    """
    keys, bits = scratch.keys, scratch.scores.view(np.uint64)
    lowest, highest, num_zeros = _ALL_BITS, np.uint64(1), 0
    for i in range(num):  # 0 - 1 wraps around to the largest number there is, so zeros have no part in `lowest`
        lowest, highest = min(lowest, bits[i] - np.uint64(1)), max(highest, bits[i])
        num_zeros += bits[i] == 0
    lowest += np.uint64(1)
    place, zero_place = (0, num - num_zeros) if descending else (num_zeros, 0)
    key_place = 0
    for i in range(num):
        if bits[i] > 0:
            keys[key_place] = highest - bits[i] if descending else bits[i] - lowest
            order[place] = i
            key_place, place = key_place + 1, place + 1
        else:
            order[zero_place] = i
            zero_place += 1
    return num_zeros, highest - lowest if num_zeros < num else np.uint64(0)


@_compiled
def _counting_pass(  # noqa: PLR0917 - a compiled function takes no keywords
    keys: Array, order: Array, new_keys: Array, new_order: Array, num: int, low: int, digit: int, places: Array
) -> None:
    """Sort keys and order by `digit` bits of the keys from bit `low` on; equal ones keep their order."""
    shift, mask = np.uint64(low), np.uint64((1 << digit) - 1)
    for value in range(1 << digit):
        places[value] = 0
    for i in range(num):
        places[(keys[i] >> shift) & mask] += 1
    place = 0
    for value in range(1 << digit):
        count = places[value]
        places[value] = place
        place += count
    for i in range(num):
        value = (keys[i] >> shift) & mask
        new_keys[places[value]], new_order[places[value]] = keys[i], order[i]
        places[value] += 1


@_compiled
def _insertion_sorted(keys: Array, order: Array, num: int, most_moves: int) -> bool:
    """Whether insertion could sort with at most so many moves; what is equal keeps its order either way."""
    num_moves = 0
    for i in range(1, num):
        key, index, j = keys[i], order[i], i
        while j > 0 and keys[j - 1] > key:
            keys[j], order[j] = keys[j - 1], order[j - 1]
            j -= 1
        keys[j], order[j] = key, index
        num_moves += i - j
        if num_moves > most_moves:
            return False
    return True


# Rows: a dot product, an update ---------------------------------------------------------------------------------


@_inlined
def _prefetch_row(rows: Array, i: int) -> None:
    for j in range(0, rows.shape[1], _LINE // rows.itemsize):
        prefetch(rows, i, j)


@_compiled
def _dot(weights: Array, rows: Array, i: int) -> float:
    """w.x_i."""
    total = 0.0
    for j in range(rows.shape[1]):
        total += weights[j] * rows[i, j]
    return total


@_compiled
def _updated_dot(  # noqa: PLR0917 - a compiled function takes no keywords
    weights: Array, rows: Array, previous: int, current: int, shrink: float, update: float
) -> float:
    """Do w <- shrink * w + update * x_previous, and then w.x_current, in one pass over the weights."""
    total = 0.0
    for j in range(rows.shape[1]):
        weight = shrink * weights[j] + update * rows[previous, j]
        weights[j] = weight
        total += weight * rows[current, j]
    return total


@_compiled
def _sparse_dot(weights: Array, rows: Rows, i: int) -> float:
    """w.x_i for CSR rows."""
    values, columns, starts = rows
    total = 0.0
    for k in range(starts[i], starts[i + 1]):
        total += weights[columns[k]] * values[k]
    return total


@_compiled
def _sparse_add(weights: Array, rows: Rows, i: int, update: float) -> None:
    """Do w <- w + update * x_i for CSR rows."""
    values, columns, starts = rows
    for k in range(starts[i], starts[i + 1]):
        weights[columns[k]] += update * values[k]


@_compiled
def unscale(state: State) -> None:
    """The weights as they are, with a scale of one."""
    flat = state.weights.reshape(-1)
    if state.scale[0] != 1.0:
        for j in range(flat.shape[0]):
            flat[j] *= state.scale[0]
        state.scale[0] = 1.0


@_compiled
def _shrink(state: State, factor: float) -> None:
    """All weights times a factor."""
    state.scale[0] *= factor
    if state.scale[0] < _SMALLEST_SCALE:
        unscale(state)


@_inlined
def _not_finite(number: float) -> bool:
    return not abs(number) < np.inf


@_inlined
def _add_to_sums(state: State, loss: float, weight: float, alpha: float) -> None:
    """The objective of one example just before its update: its loss and the penalty."""
    state.sums[0] += weight * loss
    state.sums[1] += weight
    state.sums[2] += 0.5 * alpha * state.squared_norm[0]


# Scores ---------------------------------------------------------------------------------------------------------


def fill_scores(job: Job, order: Array, begin: int, num: int, scores: Array) -> None:
    """scores[k] = ||M_i||, the exact norm of the weighted example's loss gradient, for i = order[begin + k].

    The penalty has no part in M_i, as in the paper.
    """
    raise NotImplementedError("only as a part of compiled functions")


def _scores_dense(job: Job, order: Array, begin: int, num: int, scores: Array) -> None:
    rows, examples, state, rule = job.rows, job.examples, job.state, job.rule
    if rule.loss == LOG_LOSS:
        _logistic_scores(job, order, begin, num, scores)
        return
    for k in range(num):
        i = order[begin + k]
        prediction = vector_dot(state.weights, rows, i) + state.intercepts[0]
        slope = slope_of(rule.loss, prediction, examples.targets[i], rule.epsilon)
        scores[k] = abs(slope) * examples.score_factors[i]


@_compiled
def _logistic_scores(job: Job, order: Array, begin: int, num: int, scores: Array) -> None:
    """The same for the logistic loss, whose slopes are faster computed all at once."""
    rows, examples, state, largest = job.rows, job.examples, job.state, 0.0
    for k in range(num):
        i = order[begin + k]
        scores[k] = (vector_dot(state.weights, rows, i) + state.intercepts[0]) * examples.targets[i]
        largest = max(largest, abs(scores[k]))
    if largest < _LARGEST_MARGIN:
        _fill_logistic(num, scores)
    else:  # NaN too
        for k in range(num):
            scores[k] = abs(slope_of(LOG_LOSS, scores[k], 1.0, 0.0))
    for k in range(num):
        scores[k] *= examples.score_factors[order[begin + k]]


@_compiled
def _fill_logistic(num: int, margins: Array) -> None:
    """1 / (1 + exp(m)) of every margin, |m| < 700, in loops that compile to vectors: math.exp goes one by one.

    exp(-|m|) = 2^n exp(r) with |r| <= log(2) / 2, exp(r) by its Taylor series, 2^n by writing n to the exponent's bits.
    """
    powers = np.empty(num, np.int64)
    rests = np.empty(num)
    for k in range(num):
        power = np.floor(-abs(margins[k]) * _LOG2_E + 0.5)
        powers[k] = (np.int64(power) + 1023) << 52
        rests[k] = (-abs(margins[k]) - power * _LN2_HIGH) - power * _LN2_LOW
    scales = powers.view(np.float64)
    for k in range(num):
        rest, total = rests[k], 1.0 / 6227020800.0
        for factorial in literal_unroll(_FACTORIALS):
            total = total * rest + 1.0 / factorial
        small = total * scales[k]
        margins[k] = (small if margins[k] > 0.0 else 1.0) / (1.0 + small)


def _scores_sparse(job: Job, order: Array, begin: int, num: int, scores: Array) -> None:
    rows, examples, state, rule = job.rows, job.examples, job.state, job.rule
    for k in range(num):
        i = order[begin + k]
        prediction = state.scale[0] * _sparse_dot(state.weights, rows, i) + state.intercepts[0]
        slope = slope_of(rule.loss, prediction, examples.targets[i], rule.epsilon)
        scores[k] = abs(slope) * examples.score_factors[i]


@_compiled
def _norm(vector: Array) -> float:
    total = 0.0
    for k in range(len(vector)):
        total += vector[k] * vector[k]
    return math.sqrt(total)


def _scores_softmax(job: Job, order: Array, begin: int, num: int, scores: Array) -> None:
    rows, examples, state = job.rows, job.examples, job.state
    errors = state.pending
    for k in range(num):
        i = order[begin + k]
        for c in range(len(errors)):
            errors[c] = _dot(state.weights[c], rows, i) + state.intercepts[c]
        softmax_in_place(errors, examples.targets[i])
        scores[k] = _norm(errors) * examples.score_factors[i]


@_compiled
def _sparse_logits(rows: Rows, state: State, i: int) -> None:
    values, columns, starts = rows
    logits = state.pending
    logits[:] = 0.0
    for k in range(starts[i], starts[i + 1]):
        for c in range(len(logits)):
            logits[c] += values[k] * state.weights[columns[k], c]
    for c in range(len(logits)):
        logits[c] = state.scale[0] * logits[c] + state.intercepts[c]


def _scores_softmax_sparse(job: Job, order: Array, begin: int, num: int, scores: Array) -> None:
    rows, examples, state = job.rows, job.examples, job.state
    for k in range(num):
        i = order[begin + k]
        _sparse_logits(rows, state, i)
        softmax_in_place(state.pending, examples.targets[i])
        scores[k] = _norm(state.pending) * examples.score_factors[i]


@_chosen_by_type(fill_scores)
def _choose_scores(job: Job, order: Array, begin: int, num: int, scores: Array) -> Callable[..., None]:  # noqa: ARG001
    if _is_sparse(job):
        return _scores_softmax_sparse if _is_softmax(job) else _scores_sparse
    return _scores_softmax if _is_softmax(job) else _scores_dense


def _is_sparse(job: Any) -> bool:  # noqa: ANN401 - a type of numba
    return isinstance(job.types[job.fields.index("rows")], types.BaseTuple)


def _is_softmax(job: Any) -> bool:  # noqa: ANN401 - a type of numba
    state = job.types[job.fields.index("state")]
    num_dimensions: int = state.types[state.fields.index("weights")].ndim
    return num_dimensions > 1


# Updates --------------------------------------------------------------------------------------------------------


def train(job: Job, begin: int, end: int, first_step: int, epoch: int) -> int:
    """Update on the examples scratch.sequence[begin:end], one at a time; step numbers are first_step + position.

    Returns the position it reached: `end`, or where a prediction was no longer finite.
    """
    raise NotImplementedError("only as a part of compiled functions")


def _train_dense(job: Job, begin: int, end: int, first_step: int, epoch: int) -> int:
    rows, examples, state, rule, scratch = job.rows, job.examples, job.state, job.rule, job.scratch
    weights, sequence = state.weights, scratch.sequence
    intercept, norm = state.intercepts[0], state.squared_norm[0]
    loss_sum, weight_sum, norm_sum = 0.0, 0.0, 0.0
    factors, factors_weight = 1.0, 0.0  # whose logarithm is still to be added, times this weight
    # What is done to the weights in one step is made up for in the next: w <- shrink * w + update * x_previous.
    shrink, update, previous = 1.0, 0.0, sequence[begin]
    product, cross = (
        vector_dot(weights, rows, previous),
        0.0,
    )  # of the weights, and of x_previous, with the example to come
    num_ahead = _AHEAD if rows.size > _FITS_CACHE else 0
    position = begin
    while position < end:
        i = sequence[position]
        if num_ahead > 0:
            _prefetch_row(rows, sequence[min(position + num_ahead, end - 1)])
        product = shrink * product + update * cross
        prediction = product + intercept
        if _not_finite(prediction):
            break
        following = sequence[min(position + 1, end - 1)]
        next_product, cross = advance(weights, rows, previous, i, following, shrink, update)
        size = step_size(rule, scratch.sizes, position, first_step + position, epoch)
        weight = examples.weights[i]
        loss, factor, slope = loss_and_slope(rule.loss, prediction, examples.targets[i], rule.epsilon)
        if weight != factors_weight or factors > _LARGEST_FACTORS:
            loss_sum += factors_weight * math.log(factors)
            factors, factors_weight = 1.0, weight
        factors *= factor
        loss_sum += weight * loss
        weight_sum += weight
        norm_sum += norm
        update = (-size * weight) * slope  # the slope comes last, and all else waits for it
        shrink = max(0.0, 1.0 - size * rule.alpha)
        norm = shrink * shrink * norm + update * (2.0 * shrink * product + update * examples.squared_norms[i])
        if rule.fit_intercept:
            intercept += update
        product, previous = next_product, i
        position += 1
    advance(weights, rows, previous, previous, previous, shrink, update)
    state.intercepts[0], state.squared_norm[0] = intercept, norm
    state.sums[0] += loss_sum + factors_weight * math.log(factors)
    state.sums[1] += weight_sum
    state.sums[2] += 0.5 * rule.alpha * norm_sum
    return position


def _train_sparse(job: Job, begin: int, end: int, first_step: int, epoch: int) -> int:
    rows, examples, state, rule, scratch = job.rows, job.examples, job.state, job.rule, job.scratch
    for position in range(begin, end):
        i = scratch.sequence[position]
        product = state.scale[0] * _sparse_dot(state.weights, rows, i)
        prediction = product + state.intercepts[0]
        if _not_finite(prediction):
            return position
        size = step_size(rule, scratch.sizes, position, first_step + position, epoch)
        loss, factor, slope = loss_and_slope(rule.loss, prediction, examples.targets[i], rule.epsilon)
        _add_to_sums(state, loss + math.log(factor), examples.weights[i], rule.alpha)
        update = -size * slope * examples.weights[i]
        shrink = max(0.0, 1.0 - size * rule.alpha)
        state.squared_norm[0] *= shrink * shrink
        state.squared_norm[0] += update * (2.0 * shrink * product + update * examples.squared_norms[i])
        _shrink(state, shrink)
        if update != 0.0:
            _sparse_add(state.weights, rows, i, update / state.scale[0])
        if rule.fit_intercept:
            state.intercepts[0] += update
    return end


def _train_softmax(job: Job, begin: int, end: int, first_step: int, epoch: int) -> int:
    rows, examples, state, rule, scratch = job.rows, job.examples, job.state, job.rule, job.scratch
    weights, pending, previous, shrink = state.weights, state.pending, scratch.sequence[begin], 1.0
    pending[:] = 0.0
    position = begin
    while position < end:
        i = scratch.sequence[position]
        for c in range(len(pending)):  # pending: the updates of the step before, from here on this step's logits
            product = _updated_dot(weights[c], rows, previous, i, shrink, pending[c])
            pending[c] = product + state.intercepts[c]
            state.products[c] = product
        if _any_not_finite(pending):
            return position
        size = step_size(rule, scratch.sizes, position, first_step + position, epoch)
        loss = softmax_in_place(pending, examples.targets[i])
        _add_to_sums(state, loss, examples.weights[i], rule.alpha)
        shrink = max(0.0, 1.0 - size * rule.alpha)
        _softmax_updates(state, rule, shrink, -size * examples.weights[i], examples.squared_norms[i])
        previous = i
        position += 1
    for c in range(len(pending)):
        _updated_dot(weights[c], rows, previous, previous, shrink, pending[c])
    return position


def _train_softmax_sparse(job: Job, begin: int, end: int, first_step: int, epoch: int) -> int:
    rows, examples, state, rule, scratch = job.rows, job.examples, job.state, job.rule, job.scratch
    for position in range(begin, end):
        i = scratch.sequence[position]
        _sparse_logits(rows, state, i)
        if _any_not_finite(state.pending):
            return position
        size = step_size(rule, scratch.sizes, position, first_step + position, epoch)
        for c in range(len(state.pending)):
            state.products[c] = state.pending[c] - state.intercepts[c]
        loss = softmax_in_place(state.pending, examples.targets[i])
        _add_to_sums(state, loss, examples.weights[i], rule.alpha)
        factor = max(0.0, 1.0 - size * rule.alpha)
        _softmax_updates(state, rule, factor, -size * examples.weights[i], examples.squared_norms[i])
        _shrink(state, factor)
        _sparse_add_outer(rows, state, i)
    return end


@_compiled
def _sparse_add_outer(rows: Rows, state: State, i: int) -> None:
    """Every output's pending update times x_i, added to the weights."""
    values, columns, starts = rows
    for k in range(starts[i], starts[i + 1]):
        for c in range(len(state.pending)):
            state.weights[columns[k], c] += state.pending[c] / state.scale[0] * values[k]


@_compiled
def _softmax_updates(state: State, rule: Rule, factor: float, step: float, squared_norm: float) -> None:
    """Errors of the outputs become updates; intercepts and the norm of the weights follow."""
    norm = factor * factor * state.squared_norm[0]
    for c in range(len(state.pending)):
        update = step * state.pending[c]
        norm += update * (2.0 * factor * state.products[c] + update * squared_norm)
        if rule.fit_intercept:
            state.intercepts[c] += update
        state.pending[c] = update
    state.squared_norm[0] = norm


@_compiled
def _any_not_finite(values: Array) -> bool:
    total = 0.0
    for k in range(len(values)):
        total += values[k] * 0.0
    return not total == 0.0  # noqa: SIM201 - NaN is neither


@_chosen_by_type(train)
def _choose_train(job: Job, begin: int, end: int, first_step: int, epoch: int) -> Callable[..., int]:  # noqa: ARG001
    if _is_sparse(job):
        return _train_softmax_sparse if _is_softmax(job) else _train_sparse
    return _train_softmax if _is_softmax(job) else _train_dense


# Epochs ---------------------------------------------------------------------------------------------------------


@_compiled
def num_kept(keep: float, size: int) -> int:
    """`gradorder.parts.part_of`, written again to be compiled in this file; a test holds the two together."""
    return max(1, math.ceil(keep * size * (1 - ROUNDING)))


@_compiled
def _lay_out(rule: Rule, scratch: Scratch, epoch: int) -> None:
    """The order that an epoch starts from: what is scored, what batches are cut from."""
    num, is_started = len(scratch.order), epoch >= rule.start_epoch
    is_sorted = rule.order in (DESCENDING, ASCENDING) and rule.batch_size == 0
    if is_started and (rule.order == SEQUENTIAL or is_sorted):
        for i in range(num):
            scratch.order[i] = i
    else:
        shuffle(scratch.order, num, rule.key, 0 if is_started and rule.order == RANDOM_ONCE else epoch)


@_compiled
def _choose(job: Job, begin: int, size: int, end: int, epoch: int) -> int:
    """From order[begin : begin + size] into sequence[end:], what is kept, in the rule's order.

    Returns how many, or -1 where scores are not finite.
    """
    rule, scratch = job.rule, job.scratch
    is_started = epoch >= rule.start_epoch
    num = num_kept(rule.keep, size) if is_started else size
    selects = rule.batch_size > 0 and num < size
    is_sorted = rule.order == DESCENDING or rule.order == ASCENDING  # noqa: PLR1714 - numba has slow sets
    if not is_started or not (is_sorted or selects):
        for k in range(num):
            scratch.sequence[end + k] = scratch.order[begin + k]
        return num
    fill_scores(job, scratch.order, begin, size, scratch.scores)
    if _any_not_finite(scratch.scores[:size]):
        return -1
    argsort(size, selects or rule.order == DESCENDING, scratch.places, scratch)
    if selects and rule.order == ASCENDING:
        _reverse_stably(scratch.places, scratch.scores, num)
    elif selects and rule.order != DESCENDING:
        _sort_places(scratch, num, size)
    for k in range(num):
        scratch.sequence[end + k] = scratch.order[begin + scratch.places[k]]
    return num


@_compiled
def _reverse(values: Array, begin: int, end: int) -> None:
    """values[begin:end] backwards."""
    for k in range((end - begin) // 2):
        values[begin + k], values[end - 1 - k] = values[end - 1 - k], values[begin + k]


@_compiled
def _reverse_stably(places: Array, scores: Array, num: int) -> None:
    """From a stable descending to a stable ascending order: backwards, but not among equals."""
    _reverse(places, 0, num)
    begin = 0
    for k in range(1, num + 1):
        if k == num or scores[places[k]] != scores[places[begin]]:
            _reverse(places, begin, k)
            begin = k


@_compiled
def _sort_places(scratch: Scratch, num: int, size: int) -> None:
    """The first `num` places in increasing order."""
    is_kept = scratch.spare_order
    for k in range(size):
        is_kept[k] = 0
    for k in range(num):
        is_kept[scratch.places[k]] = 1
    num_found = 0
    for k in range(size):
        if is_kept[k] == 1:
            scratch.places[num_found] = k
            num_found += 1


@_compiled
def _train_epoch(job: Job, first_step: int, epoch: int) -> bool:
    """One epoch by the rule; whether its numbers stayed finite. scratch.length[0] counts its steps.

    Algorithm 2 is a loop over batches: score each at the weights it finds, keep its hardest, update on them one at a
    time. Algorithm 1 is the same with all examples as the one batch.
    """
    rule, scratch = job.rule, job.scratch
    num = len(scratch.order)
    is_ready = rule.order == GIVEN_ORDER
    if rule.flip_flop and epoch % 2 == 1 and scratch.length[0] > 0:
        _reverse(scratch.sequence, 0, scratch.length[0])
        is_ready = True
    if not is_ready:
        _lay_out(rule, scratch, epoch)
    is_cut = rule.batch_size > 0 and epoch >= rule.start_epoch and not is_ready
    batch_size = rule.batch_size if is_cut else num
    end = 0
    for begin in range(0, num, batch_size):
        size, count = min(batch_size, num - begin), scratch.length[0]
        if not is_ready:
            count = _choose(job, begin, size, end, epoch)
        reached = train(job, end, end + count, first_step, epoch) if count > 0 else end
        if reached < end + max(count, 1):
            scratch.length[0] = reached
            return False
        end += count
    scratch.length[0] = end
    return True


@_compiled
def begin_epoch(state: State) -> None:
    """Sums at zero, the norm of the weights computed anew."""
    flat, total = state.weights.reshape(-1), 0.0
    for j in range(len(flat)):
        total += flat[j] * flat[j]
    state.squared_norm[0] = state.scale[0] * state.scale[0] * total
    state.sums[:] = 0.0


@_compiled
def _objective(state: State, num_steps: int) -> float:
    """The mean over the steps of the epoch: weighted losses before each update, and the penalty."""
    loss = state.sums[0] / state.sums[1] if state.sums[1] > 0 else 0.0
    return float(loss + state.sums[2] / num_steps)


@_compiled
def has_converged(state: State, rule: Rule, objective: float) -> bool:
    """Whether the objective has made no progress of more than `tol` for `patience` epochs."""
    if objective > state.stopping[0] - rule.tol:
        state.stopping[1] += 1
    else:
        state.stopping[1] = 0
    state.stopping[0] = min(state.stopping[0], objective)
    return rule.tol > -np.inf and state.stopping[1] >= rule.patience


@_compiled
def end_epoch(state: State, rule: Rule, num_steps: int, curve: Array, place: int) -> int:
    """Write the objective to curve[place] and say how training stands."""
    curve[place] = _objective(state, num_steps)
    if _any_not_finite(state.weights.reshape(-1)) or _any_not_finite(state.intercepts):
        return DIVERGED
    return CONVERGED if has_converged(state, rule, curve[place]) else FINISHED


@_compiled
def run_epochs(job: Job, curve: Array, first_step: int, epoch: int, num_epochs: int) -> tuple[int, int, int]:
    """Train until all epochs are done, the objective no longer falls, or numbers are no longer finite.

    Returns how it ended, the next epoch and the next step (where it diverged: the epoch and the step it was in).
    """
    state, rule, scratch = job.state, job.rule, job.scratch
    step, status = first_step, FINISHED
    for place in range(num_epochs):
        begin_epoch(state)
        if not _train_epoch(job, step, epoch):
            return DIVERGED, epoch, step + scratch.length[0]
        status = end_epoch(state, rule, scratch.length[0], curve, place)
        if status == DIVERGED:
            return DIVERGED, epoch, step + scratch.length[0] - 1
        step += scratch.length[0]
        epoch += 1
        if status == CONVERGED:
            break
    unscale(state)
    return status, epoch, step


@_compiled
def scores_of(job: Job, order: Array) -> Array:
    """The scores of the examples in `order` at the current weights."""
    scores = np.empty(len(order))
    fill_scores(job, order, 0, len(order), scores)
    return scores


@_compiled
def train_part(job: Job, begin: int, end: int, first_step: int, epoch: int) -> int:
    """`train` for callers that are not compiled."""
    return train(job, begin, end, first_step, epoch)

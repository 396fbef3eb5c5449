"""The compiled training loop: losses, scores, orders and updates, one example at a time (Algorithms 1 and 2).

Everything compiled stands in this one file, because numba looks only at a function's own file to see whether what it
has cached is still true. The slow and obvious version of the same is `reference.py`.

A data set is `rows`: a C-contiguous matrix (n, d), or the three arrays of a CSR matrix as a tuple. A model is
`weights` of shape (d,) with one intercept, or, for the softmax over K classes, of shape (K, d), with CSR rows (d, K),
and K intercepts. What depends on these shapes is chosen when numba compiles for them (`overload`), the rest is shared.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numba import types
from numba.extending import overload

Array = np.ndarray[Any, Any]
Rows = Any
"""A matrix, or the three arrays of a CSR matrix."""
F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered and multiplications fused; NaN and infinity keep their meaning, since divergence is found by
# them.
_FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
_OPTIONS = {"fastmath": _FASTMATH, "error_model": "numpy", "boundscheck": False}

SQUARED_ERROR, HUBER, QUARTIC, LOG_LOSS, HINGE, MULTINOMIAL = range(6)
SEQUENTIAL, RANDOM, RANDOM_ONCE, DESCENDING, ASCENDING, GIVEN_ORDER = range(6)
CONSTANT, INVERSE_PER_STEP, INVERSE_SQRT_PER_STEP, INVERSE_PER_EPOCH, INVERSE_SQRT_PER_EPOCH, GIVEN_SIZES = range(6)
FINISHED, CONVERGED, DIVERGED = range(3)

_SMALLEST_SCALE = 1e-9


def _compiled(function: F) -> F:
    """Compiled at the first call for each kind of arguments, without the interpreter's lock, kept on disk."""
    compiled: F = numba.njit(cache=True, nogil=True, **_OPTIONS)(function)
    return compiled


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


class Scratch(NamedTuple):
    """Room for the order of an epoch; what must survive between calls as well (the last sequence and its length)."""

    order: Array
    sequence: Array
    length: Array
    scores: Array
    keys: Array
    spare_keys: Array
    spare_order: Array
    batch_places: Array
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


# Losses ---------------------------------------------------------------------------------------------------------


@_compiled
def loss_of(loss: int, prediction: float, target: float, epsilon: float) -> float:
    """The loss of one example; targets of the classifiers are -1 and 1."""
    if loss == LOG_LOSS:
        margin = prediction * target
        return math.log1p(math.exp(-abs(margin))) + max(0.0, -margin)
    if loss == HINGE:
        return max(0.0, 1.0 - prediction * target)
    residual = prediction - target
    square = residual * residual
    if loss == SQUARED_ERROR:
        return 0.5 * square
    if loss == HUBER:
        return 0.5 * square if abs(residual) <= epsilon else epsilon * abs(residual) - 0.5 * epsilon * epsilon
    return square * square + square


@_compiled
def slope_of(loss: int, prediction: float, target: float, epsilon: float) -> float:
    """The derivative of the loss with respect to the prediction."""
    if loss == LOG_LOSS:
        small = math.exp(-abs(prediction * target))
        return -target * (small if prediction * target > 0.0 else 1.0) / (1.0 + small)
    if loss == HINGE:
        return -target if prediction * target <= 1.0 else 0.0
    residual = prediction - target
    if loss == SQUARED_ERROR:
        return residual
    if loss == HUBER:
        return max(-epsilon, min(epsilon, residual))
    return 4.0 * residual * residual * residual + 2.0 * residual


@_compiled
def softmax_in_place(logits: Array, label: int) -> float:
    """Logits become probabilities minus one-hot; returns the cross-entropy loss."""
    highest = logits[0]
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
    return math.log(total) - own


# Step sizes -----------------------------------------------------------------------------------------------------


@_compiled
def step_size(rule: Rule, sizes: Array, position: int, step: int, epoch: int) -> float:
    """The step size of one update, the formulas of `gradorder.schedules`; `position` is the step within the epoch."""
    if rule.schedule == GIVEN_SIZES:
        return sizes[position]
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


@_compiled
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


@_compiled
def argsort(scores: Array, num: int, descending: bool, order: Array, scratch: Scratch) -> None:
    """The stable sorting permutation of scores[:num], none of them negative or NaN, into order[:num].

    Bits of a non-negative float compare as the float does. Two counting passes sort by the upper bits of their range;
    what these leave equal is nearly in place, and insertion finishes it. Where too much is left, as with many scores
    that differ in their last bits only, eight passes sort by all 64 bits.
    """
    keys, spare_keys, spare = scratch.keys, scratch.spare_keys, scratch.spare_order
    bits = scores.view(np.uint64)
    lowest, highest = bits[0], bits[0]
    for i in range(num):
        lowest, highest = min(lowest, bits[i]), max(highest, bits[i])
    for i in range(num):
        keys[i] = highest - bits[i] if descending else bits[i] - lowest
        order[i] = i
    span, digit = highest - lowest, 8 if num < 4096 else 11
    shift = 0
    while (span >> np.uint64(shift)) >> np.uint64(2 * digit) > 0:
        shift += 1
    _counting_pass(keys, order, spare_keys, spare, num, shift, digit)
    _counting_pass(spare_keys, spare, keys, order, num, shift + digit, digit)
    if shift > 0 and not _insertion_sorted(keys, order, num, 8 * num):
        for part in range(4):  # stable, so what is sorted already may be sorted again
            _counting_pass(keys, order, spare_keys, spare, num, 16 * part, 8)
            _counting_pass(spare_keys, spare, keys, order, num, 16 * part + 8, 8)


@_compiled
def _counting_pass(
    keys: Array, order: Array, new_keys: Array, new_order: Array, num: int, shift: int, digit: int
) -> None:
    """Sort keys and order by `digit` bits of the keys from `shift` on; equal ones keep their order."""
    places = np.zeros(1 << digit, np.int64)
    low, mask = np.uint64(shift), np.uint64((1 << digit) - 1)
    for i in range(num):
        places[(keys[i] >> low) & mask] += 1
    place = 0
    for value in range(1 << digit):
        count = places[value]
        places[value] = place
        place += count
    for i in range(num):
        value = (keys[i] >> low) & mask
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


@_compiled
def _dot(weights: Array, rows: Array, i: int) -> float:
    """w.x_i."""
    total = 0.0
    for j in range(weights.shape[0]):
        total += weights[j] * rows[i, j]
    return total


@_compiled
def _updated_dot(weights: Array, rows: Array, previous: int, current: int, shrink: float, update: float) -> float:
    """w <- shrink * w + update * x_previous, and then w.x_current, in one pass over the weights."""
    total = 0.0
    for j in range(weights.shape[0]):
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
    """W <- w + update * x_i for CSR rows."""
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


@_compiled
def _not_finite(number: float) -> bool:
    return not abs(number) < np.inf


@_compiled
def _add_to_sums(state: State, loss: float, weight: float, alpha: float) -> None:
    """The objective of one example just before its update: its loss and the penalty."""
    state.sums[0] += weight * loss
    state.sums[1] += weight
    state.sums[2] += 0.5 * alpha * state.squared_norm[0]


# Scores ---------------------------------------------------------------------------------------------------------


def fill_scores(
    rows: Rows, examples: Examples, state: State, rule: Rule, order: Array, begin: int, num: int, scores: Array
) -> None:
    """scores[k] = ||M_i||, the exact norm of the weighted example's loss gradient, for i = order[begin + k].

    An order without entries stands for range(num). The penalty has no part in M_i, as in the paper.
    """
    raise NotImplementedError("only as a part of compiled functions")


def _scores_dense(
    rows: Rows, examples: Examples, state: State, rule: Rule, order: Array, begin: int, num: int, scores: Array
) -> None:
    for k in range(num):
        i = order[begin + k] if len(order) > 0 else k
        prediction = _dot(state.weights, rows, i) + state.intercepts[0]
        slope = slope_of(rule.loss, prediction, examples.targets[i], rule.epsilon)
        scores[k] = abs(slope) * examples.weights[i] * math.sqrt(examples.squared_norms[i] + rule.fit_intercept)


def _scores_sparse(
    rows: Rows, examples: Examples, state: State, rule: Rule, order: Array, begin: int, num: int, scores: Array
) -> None:
    for k in range(num):
        i = order[begin + k] if len(order) > 0 else k
        prediction = state.scale[0] * _sparse_dot(state.weights, rows, i) + state.intercepts[0]
        slope = slope_of(rule.loss, prediction, examples.targets[i], rule.epsilon)
        scores[k] = abs(slope) * examples.weights[i] * math.sqrt(examples.squared_norms[i] + rule.fit_intercept)


@_compiled
def _norm(vector: Array) -> float:
    total = 0.0
    for k in range(len(vector)):
        total += vector[k] * vector[k]
    return math.sqrt(total)


def _scores_softmax(
    rows: Rows, examples: Examples, state: State, rule: Rule, order: Array, begin: int, num: int, scores: Array
) -> None:
    errors = state.pending
    for k in range(num):
        i = order[begin + k] if len(order) > 0 else k
        for c in range(len(errors)):
            errors[c] = _dot(state.weights[c], rows, i) + state.intercepts[c]
        softmax_in_place(errors, np.int64(examples.targets[i]))
        norm = _norm(errors) * examples.weights[i]
        scores[k] = norm * math.sqrt(examples.squared_norms[i] + rule.fit_intercept)


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


def _scores_softmax_sparse(
    rows: Rows, examples: Examples, state: State, rule: Rule, order: Array, begin: int, num: int, scores: Array
) -> None:
    for k in range(num):
        i = order[begin + k] if len(order) > 0 else k
        _sparse_logits(rows, state, i)
        softmax_in_place(state.pending, np.int64(examples.targets[i]))
        norm = _norm(state.pending) * examples.weights[i]
        scores[k] = norm * math.sqrt(examples.squared_norms[i] + rule.fit_intercept)


@_chosen_by_type(fill_scores)
def _choose_scores(
    rows: Rows, examples: Examples, state: State, rule: Rule, order: Array, begin: int, num: int, scores: Array
) -> Callable[..., None]:  # noqa: ARG001
    if isinstance(rows, types.BaseTuple):
        return _scores_softmax_sparse if _is_softmax(state) else _scores_sparse
    return _scores_softmax if _is_softmax(state) else _scores_dense


def _is_softmax(state: Any) -> bool:  # noqa: ANN401 - a type of numba
    num_dimensions: int = state.types[0].ndim
    return num_dimensions == 2  # noqa: PLR2004


# Updates --------------------------------------------------------------------------------------------------------


def train(
    rows: Rows,
    examples: Examples,
    state: State,
    rule: Rule,
    scratch: Scratch,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> int:
    """Update on the examples scratch.sequence[begin:end], one at a time; step numbers are first_step + position.

    Returns the position it reached: `end`, or where a prediction was no longer finite.
    """
    raise NotImplementedError("only as a part of compiled functions")


def _train_dense(
    rows: Rows,
    examples: Examples,
    state: State,
    rule: Rule,
    scratch: Scratch,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> int:
    weights, sequence = state.weights, scratch.sequence
    intercept, norm = state.intercepts[0], state.squared_norm[0]
    loss_sum, weight_sum, norm_sum = 0.0, 0.0, 0.0
    shrink, update = 1.0, 0.0  # of the step before, made up for together with the next dot product
    previous = sequence[begin]
    position = begin
    while position < end:
        i = sequence[position]
        if update != 0.0:
            product = _updated_dot(weights, rows, previous, i, shrink, update)
            shrink = 1.0
        else:
            product = shrink * _dot(weights, rows, i)
        prediction = product + intercept
        if _not_finite(prediction):
            break
        size = step_size(rule, scratch.sizes, position, first_step + position, epoch)
        weight = examples.weights[i]
        loss_sum += weight * loss_of(rule.loss, prediction, examples.targets[i], rule.epsilon)
        weight_sum += weight
        norm_sum += norm
        update = -size * slope_of(rule.loss, prediction, examples.targets[i], rule.epsilon) * weight
        factor = max(0.0, 1.0 - size * rule.alpha)
        norm = factor * factor * norm + update * (2.0 * factor * product + update * examples.squared_norms[i])
        shrink *= factor
        if rule.fit_intercept:
            intercept += update
        previous = i
        position += 1
    _updated_dot(weights, rows, previous, previous, shrink, update)
    state.intercepts[0], state.squared_norm[0] = intercept, norm
    state.sums[0] += loss_sum
    state.sums[1] += weight_sum
    state.sums[2] += 0.5 * rule.alpha * norm_sum
    return position


def _train_sparse(
    rows: Rows,
    examples: Examples,
    state: State,
    rule: Rule,
    scratch: Scratch,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> int:
    for position in range(begin, end):
        i = scratch.sequence[position]
        product = state.scale[0] * _sparse_dot(state.weights, rows, i)
        prediction = product + state.intercepts[0]
        if _not_finite(prediction):
            return position
        size = step_size(rule, scratch.sizes, position, first_step + position, epoch)
        loss = loss_of(rule.loss, prediction, examples.targets[i], rule.epsilon)
        _add_to_sums(state, loss, examples.weights[i], rule.alpha)
        slope = slope_of(rule.loss, prediction, examples.targets[i], rule.epsilon)
        update = -size * slope * examples.weights[i]
        factor = max(0.0, 1.0 - size * rule.alpha)
        state.squared_norm[0] *= factor * factor
        state.squared_norm[0] += update * (2.0 * factor * product + update * examples.squared_norms[i])
        _shrink(state, factor)
        if update != 0.0:
            _sparse_add(state.weights, rows, i, update / state.scale[0])
        if rule.fit_intercept:
            state.intercepts[0] += update
    return end


def _train_softmax(
    rows: Rows,
    examples: Examples,
    state: State,
    rule: Rule,
    scratch: Scratch,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> int:
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
        loss = softmax_in_place(pending, np.int64(examples.targets[i]))
        _add_to_sums(state, loss, examples.weights[i], rule.alpha)
        shrink = max(0.0, 1.0 - size * rule.alpha)
        _softmax_updates(state, rule, shrink, -size * examples.weights[i], examples.squared_norms[i])
        previous = i
        position += 1
    for c in range(len(pending)):
        _updated_dot(weights[c], rows, previous, previous, shrink, pending[c])
    return position


def _train_softmax_sparse(
    rows: Rows,
    examples: Examples,
    state: State,
    rule: Rule,
    scratch: Scratch,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> int:
    for position in range(begin, end):
        i = scratch.sequence[position]
        _sparse_logits(rows, state, i)
        if _any_not_finite(state.pending):
            return position
        size = step_size(rule, scratch.sizes, position, first_step + position, epoch)
        for c in range(len(state.pending)):
            state.products[c] = state.pending[c] - state.intercepts[c]
        loss = softmax_in_place(state.pending, np.int64(examples.targets[i]))
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
def _choose_train(
    rows: Rows,
    examples: Examples,
    state: State,
    rule: Rule,
    scratch: Scratch,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> Callable[..., int]:  # noqa: ARG001
    if isinstance(rows, types.BaseTuple):
        return _train_softmax_sparse if _is_softmax(state) else _train_sparse
    return _train_softmax if _is_softmax(state) else _train_dense


# Epochs ---------------------------------------------------------------------------------------------------------


@_compiled
def num_kept(keep: float, size: int) -> int:
    """ceil(keep * size), at least one."""
    return max(1, int(math.ceil(keep * size)))


@_compiled
def _plan_epoch(rows: Rows, examples: Examples, state: State, rule: Rule, scratch: Scratch, epoch: int) -> bool:
    """Algorithm 1's sequence of the epoch; whether all scores were finite."""
    num = len(scratch.sequence)
    scratch.length[0] = num if epoch < rule.start_epoch else num_kept(rule.keep, num)
    if epoch < rule.start_epoch or rule.order == RANDOM:
        shuffle(scratch.sequence, num, rule.key, epoch)
    elif rule.order == RANDOM_ONCE:
        shuffle(scratch.sequence, num, rule.key, 0)
    elif rule.order == SEQUENTIAL:
        for i in range(num):
            scratch.sequence[i] = i
    else:
        fill_scores(rows, examples, state, rule, scratch.sequence[:0], 0, num, scratch.scores)
        if _any_not_finite(scratch.scores):
            return False
        argsort(scratch.scores, num, rule.order == DESCENDING, scratch.sequence, scratch)
    return True


@_compiled
def _deal_batches(rule: Rule, scratch: Scratch, epoch: int) -> None:
    """The order from which Algorithm 2's batches are cut."""
    num = len(scratch.order)
    if rule.order == SEQUENTIAL:
        for i in range(num):
            scratch.order[i] = i
    else:
        shuffle(scratch.order, num, rule.key, 0 if rule.order == RANDOM_ONCE else epoch)


@_compiled
def _keep_hardest(rule: Rule, scratch: Scratch, begin: int, size: int, end: int) -> int:
    """The hardest of the batch order[begin : begin + size] into sequence[end:], in the rule's order; how many."""
    places, num = scratch.batch_places, num_kept(rule.keep, size)
    argsort(scratch.scores, size, True, places, scratch)
    if rule.order != DESCENDING:
        places[:num].sort()
    if rule.order == ASCENDING:
        _sort_kept(scratch, num)
    for k in range(num):
        scratch.sequence[end + k] = scratch.order[begin + places[k]]
    return num


@_compiled
def _sort_kept(scratch: Scratch, num: int) -> None:
    """The kept places in ascending order of their scores."""
    kept = scratch.batch_places[:num].copy()
    for k in range(num):
        scratch.scores[k] = scratch.scores[kept[k]]
    argsort(scratch.scores, num, False, scratch.batch_places, scratch)
    for k in range(num):
        scratch.batch_places[k] = kept[scratch.batch_places[k]]


@_compiled
def _train_in_batches(
    rows: Rows, examples: Examples, state: State, rule: Rule, scratch: Scratch, first_step: int, epoch: int
) -> bool:
    """Algorithm 2: score each batch at the weights it finds, keep its hardest, update on them one at a time."""
    _deal_batches(rule, scratch, epoch)
    end = 0
    for begin in range(0, len(scratch.order), rule.batch_size):
        size = min(rule.batch_size, len(scratch.order) - begin)
        fill_scores(rows, examples, state, rule, scratch.order, begin, size, scratch.scores)
        if _any_not_finite(scratch.scores[:size]):
            return False
        num = _keep_hardest(rule, scratch, begin, size, end)
        scratch.length[0] = end + num
        reached = train(rows, examples, state, rule, scratch, end, end + num, first_step, epoch)
        if reached < end + num:
            scratch.length[0] = reached
            return False
        end += num
    return True


@_compiled
def _train_epoch(
    rows: Rows, examples: Examples, state: State, rule: Rule, scratch: Scratch, first_step: int, epoch: int
) -> bool:
    """One epoch by the rule; whether it ended with finite numbers. scratch.length[0] counts its steps."""
    replays = rule.flip_flop and epoch % 2 == 1 and scratch.length[0] > 0
    if replays:
        scratch.sequence[: scratch.length[0]] = scratch.sequence[: scratch.length[0]][::-1].copy()
    elif rule.batch_size > 0 and epoch >= rule.start_epoch:
        return _train_in_batches(rows, examples, state, rule, scratch, first_step, epoch)
    elif rule.order != GIVEN_ORDER:
        scratch.length[0] = 0
        if not _plan_epoch(rows, examples, state, rule, scratch, epoch):
            return False
    num = scratch.length[0]
    scratch.length[0] = train(rows, examples, state, rule, scratch, 0, num, first_step, epoch)
    return scratch.length[0] == num


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
    return loss + state.sums[2] / num_steps


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
def run_epochs(
    rows: Rows,
    examples: Examples,
    state: State,
    rule: Rule,
    scratch: Scratch,
    curve: Array,
    first_step: int,
    epoch: int,
    num_epochs: int,
) -> tuple[int, int, int]:
    """Train until all epochs are done, the objective no longer falls, or numbers are no longer finite.

    Returns how it ended, the next epoch and the next step (where it diverged: the epoch and the step it was in).
    """
    step, status = first_step, FINISHED
    for place in range(num_epochs):
        begin_epoch(state)
        if not _train_epoch(rows, examples, state, rule, scratch, step, epoch):
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
def scores_of(rows: Rows, examples: Examples, state: State, rule: Rule, order: Array) -> Array:
    """The scores of the examples in `order` at the current weights."""
    scores = np.empty(len(order))
    fill_scores(rows, examples, state, rule, order, 0, len(order), scores)
    return scores


@_compiled
def train_part(
    rows: Rows,
    examples: Examples,
    state: State,
    rule: Rule,
    scratch: Scratch,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> int:
    """`train` for callers that are not compiled."""
    return train(rows, examples, state, rule, scratch, begin, end, first_step, epoch)

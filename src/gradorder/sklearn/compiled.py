"""The compiled training loop of a linear model: losses, scores, orders and updates (Algorithms 1 and 2).

Everything that numba compiles is in this one file, and it imports no constants: see `compilation.compiled`. The tests
compare it with a slow version in numpy.

One epoch of Algorithm 1 scores all examples, sorts them and updates the weights on one example after the other.
Algorithm 2 does the same with each random batch. The weights are stored as `scale * weights`, so that the L2 penalty
costs one multiplication per step.

Arguments that may be None: `matrix` (dense inputs) or `csr` (sparse inputs), `extras`, `sorting`. Numba compiles no
branch `if x is not None` for an x that is None, so the first fit takes a fraction of the time. It does so for arguments
only, so `Run` cannot hold them.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit

from gradorder.sklearn.compilation import compiled

Array = np.ndarray[Any, Any]
F = TypeVar("F", bound=Callable[..., Any])

SQUARED_ERROR, HUBER, QUARTIC, LOG_LOSS, HINGE, MODIFIED_HUBER, MULTINOMIAL = range(7)
SEQUENTIAL, SHUFFLED, SHUFFLED_ONCE, DESCENDING, ASCENDING, GIVEN_ORDER = range(6)
CONSTANT, INVERSE_PER_STEP, INVERSE_SQRT_PER_STEP, INVERSE_PER_EPOCH, INVERSE_SQRT_PER_EPOCH, GIVEN_RATES = range(6)
FINISHED, CONVERGED, DIVERGED = range(3)

# Columns of `examples`, shape (n, 4).
TARGET, WEIGHT, SQUARED_LENGTH, SCORE_FACTOR = range(4)

# Entries of `numbers`: sums of the epoch, and what must survive between calls.
SCALE, SQUARED_NORM, L1_NORM, LOSSES, EXAMPLE_WEIGHTS, PENALTIES, BEST, NUM_WITHOUT_PROGRESS, THRESHOLD, AVERAGED = (
    range(10)
)
NUM_NUMBERS = 10

_SMALLEST_SCALE = 1e-6  # smaller ones cancel digits of the average
_ROUNDING = 2.0**-50  # that of `gradorder.checks`
_NUM_FOR_LARGE_DIGITS = 4096  # scores; for fewer, passes over 8 bits are faster than over 11


class SparseRows(NamedTuple):
    """The inputs as a CSR matrix."""

    entries: Array
    columns: Array
    starts: Array
    """Unsigned, as `columns`: numba would check signed indices for negative values."""


class State(NamedTuple):
    """A linear model with K outputs under way."""

    weights: Array
    """(d * K,), those of one feature together. The weights of the model are these times numbers[SCALE]."""
    intercepts: Array
    numbers: Array


class Extras(NamedTuple):
    """The part of the state that only several outputs, an L1 penalty or an average need."""

    outputs: Array
    """(K,): the outputs of an example, and then the derivatives of its loss."""
    penalised: Array
    """(d * K,): the L1 penalty that each weight has paid so far, of numbers[THRESHOLD] that it owes. Empty without."""
    missing: Array
    """(d * K,): the sum of the averaged weights is numbers[AVERAGED] * weights - missing. Empty without an average."""
    intercept_sums: Array


class Plan(NamedTuple):
    """The order of an epoch. FlipFlop replays it in the next call."""

    order: Array
    """The examples before scoring: they are scored, or cut into batches, in this order."""
    sequence: Array
    length: Array
    """(1,): the number of steps in the sequence."""
    rates: Array
    """The learning rates of the epoch, if the rule has no formula for them."""


class Sorting(NamedTuple):
    """Memory for scores (n,), and for the keys and places (2, n) of a sort."""

    scores: Array
    keys: Array
    places: Array


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


class Run(NamedTuple):
    """A training run: its data, model, rule and order."""

    examples: Array
    """(n, 4), see TARGET and the other columns."""
    state: State
    rule: Rule
    plan: Plan


def _part(function: F) -> F:
    """Compile a function that only compiled functions call."""
    part: Any = njit(nogil=True, error_model="numpy")(function)
    return part  # type: ignore[no-any-return]


def _inlined(function: F) -> F:
    """Compile a function into the loop that calls it: a call would count references to its arrays at every step."""
    part: Any = njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return part  # type: ignore[no-any-return]


def _summed(function: F) -> F:
    """Compile a function whose sums may be reordered, which numba needs to vectorise them."""
    part: Any = njit(nogil=True, error_model="numpy", forceinline=True, fastmath={"reassoc", "contract"})(function)
    return part  # type: ignore[no-any-return]


def _called(function: F) -> F:
    """Compile a function that Python calls."""
    return compiled(function, error_model="numpy")


# Random and sorted orders -----------------------------------------------------------------------------------------

_GOLDEN, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LOW_HALF, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@_part
def _mixed(number: np.uint64) -> np.uint64:
    """SplitMix64's output function."""
    number = (number ^ (number >> np.uint64(30))) * _FIRST
    number = (number ^ (number >> np.uint64(27))) * _SECOND
    return number ^ (number >> np.uint64(31))


@_called
def shuffle(order: Array, key: np.uint64, epoch: int) -> None:
    """Fill `order` with a random permutation that depends on key and epoch only.

    Fisher and Yates, by a SplitMix64 stream for each epoch; Lemire's rejection makes it uniform.
    """
    for i in range(len(order)):
        order[i] = i
    state = _mixed(key ^ _mixed(np.uint64(epoch) + _GOLDEN))
    for i in range(len(order) - 1, 0, -1):
        num_choices = np.uint64(i + 1)
        state += _GOLDEN
        product = (_mixed(state) >> _HALF) * num_choices
        if (product & _LOW_HALF) < num_choices:
            threshold = ((_LOW_HALF + np.uint64(1)) - num_choices) % num_choices
            while (product & _LOW_HALF) < threshold:
                state += _GOLDEN
                product = (_mixed(state) >> _HALF) * num_choices
        j = np.int64(product >> _HALF)
        order[i], order[j] = order[j], order[i]


@_called
def argsort(scores: Array, descending: bool, sorting: Sorting) -> Array:
    """Return the stable sorting permutation of scores >= 0, in a row of sorting.places.

    The bits of such floats compare like the floats. Each pass sorts by a few of them; a pass in which all are equal is
    skipped.
    """
    num, bits, here, keys, places = len(scores), scores.view(np.uint64), 0, sorting.keys, sorting.places
    digit_size = 11 if num >= _NUM_FOR_LARGE_DIGITS else 8
    counts = np.empty(1 << digit_size, dtype=np.int64)
    for i in range(num):
        keys[0, i], places[0, i] = ~bits[i] if descending else bits[i], i
    for low in range(0, 64, digit_size):
        shift, mask = np.uint64(low), np.uint64(len(counts) - 1)
        for digit in range(len(counts)):
            counts[digit] = 0
        for i in range(num):
            counts[(keys[here, i] >> shift) & mask] += 1
        if counts[(keys[here, 0] >> shift) & mask] == num:
            continue
        place = 0
        for digit in range(len(counts)):
            counts[digit], place = place, place + counts[digit]
        for i in range(num):
            digit = (keys[here, i] >> shift) & mask
            keys[1 - here, counts[digit]], places[1 - here, counts[digit]] = keys[here, i], places[here, i]
            counts[digit] += 1
        here = 1 - here
    return places[here, :num]


@_called
def num_kept(keep: float, size: int) -> int:
    """Return ceil(keep * size) without its rounding errors, at least 1: `gradorder.checks.part_of`."""
    return max(1, math.ceil(keep * size * (1 - _ROUNDING)))


# Losses and learning rates ----------------------------------------------------------------------------------------


@_inlined
def _loss_and_slope(loss: int, prediction: float, target: float, epsilon: float) -> tuple[float, float]:  # noqa: PLR0911 - one for each branch of each loss
    """Return the loss of one example and its derivative by the prediction; classes are -1 and 1."""
    margin, residual = prediction * target, prediction - target
    if loss == LOG_LOSS:
        small = math.exp(-abs(margin))
        return max(0.0, -margin) + math.log(1.0 + small), -target * (small if margin > 0.0 else 1.0) / (1.0 + small)
    if loss == HINGE:
        return max(0.0, 1.0 - margin), -target if margin <= 1.0 else 0.0
    if loss == MODIFIED_HUBER:
        if margin < -1.0:
            return -4.0 * margin, -4.0 * target
        missing = max(0.0, 1.0 - margin)
        return missing * missing, -2.0 * target * missing
    square = residual * residual
    if loss == SQUARED_ERROR or (loss == HUBER and abs(residual) <= epsilon):
        return 0.5 * square, residual
    if loss == QUARTIC:
        return square * square + square, 4.0 * residual * square + 2.0 * residual
    return epsilon * abs(residual) - 0.5 * epsilon * epsilon, math.copysign(epsilon, residual)


@_part
def _softmax_in_place(logits: Array, target: float) -> float:
    """Replace logits by probabilities minus one-hot; return the cross-entropy."""
    label, highest = int(target), logits.max()
    own, total = logits[label] - highest, 0.0
    for k in range(len(logits)):
        logits[k] = math.exp(logits[k] - highest)
        total += logits[k]
    for k in range(len(logits)):
        logits[k] /= total
    logits[label] -= 1.0
    return math.log(total) - float(own)


@_part
def _slopes_in_place(outputs: Array, target: float, rule: Rule) -> float:
    """Replace outputs by the derivatives of the loss; return the loss."""
    if rule.loss == MULTINOMIAL:
        return float(_softmax_in_place(outputs, target))
    loss, outputs[0] = _loss_and_slope(rule.loss, outputs[0], target, rule.epsilon)
    return loss


@_inlined
def _learning_rate(rule: Rule, rates: Array, position: int, step: int, epoch: int) -> float:
    """Return the learning rate of one update by the formulas of `gradorder.schedules`.

    `position` is the step within the epoch.
    """
    if rule.schedule == GIVEN_RATES:
        return float(rates[position])
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


# Outputs and scores -----------------------------------------------------------------------------------------------


@_summed
def _dense_dot(matrix: Array, weights: Array, i: int) -> float:
    total = 0.0
    for j in range(matrix.shape[1]):
        total += weights[j] * matrix[i, j]
    return total


@_summed
def _sparse_dot(entries: Array, columns: Array, weights: Array, begin: int, end: int) -> float:
    total = 0.0
    for k in range(begin, end):
        total += weights[columns[k]] * entries[k]
    return total


@_part
def _bounds(matrix: Array | None, csr: SparseRows | None, i: int) -> tuple[int, int]:
    """The first entry of a row, and the end."""
    begin, end = 0, 0
    if matrix is not None:
        end = matrix.shape[1]
    if csr is not None:
        begin, end = csr.starts[i], csr.starts[i + 1]
    return begin, end


@_part
def _entry(matrix: Array | None, csr: SparseRows | None, i: int, k: int) -> tuple[int, float]:
    """Column and value of an entry."""
    column, value = k, 0.0
    if matrix is not None:
        value = float(matrix[i, k])
    if csr is not None:
        column, value = int(csr.columns[k]), float(csr.entries[k])
    return column, value


@_part
def _fill_outputs(matrix: Array | None, csr: SparseRows | None, state: State, outputs: Array, i: int) -> None:
    """Write W x_i + b to `outputs`."""
    weights = state.weights
    for c in range(len(outputs)):
        outputs[c] = 0.0
    begin, end = _bounds(matrix, csr, i)
    for k in range(begin, end):
        column, value = _entry(matrix, csr, i, k)
        for c in range(len(outputs)):
            outputs[c] += value * weights[column * len(outputs) + c]
    for c in range(len(outputs)):
        outputs[c] = state.numbers[SCALE] * outputs[c] + state.intercepts[c]


@_inlined
def _product(matrix: Array | None, csr: SparseRows | None, weights: Array, i: int) -> float:
    """w.x_i."""
    product = 0.0
    if matrix is not None:
        product = _dense_dot(matrix, weights, i)
    if csr is not None:
        product = _sparse_dot(csr.entries, csr.columns, weights, csr.starts[i], csr.starts[i + 1])
    return product


@_called
def fill_scores(  # noqa: PLR0917 - a compiled function takes no keywords
    matrix: Array | None, csr: SparseRows | None, extras: Extras | None, run: Run, order: Array, scores: Array
) -> bool:
    """Write ||M_i||, i = order[k], to scores[k]; return whether all are finite.

    This is the exact norm of the gradient of the weighted loss of the example. As in the paper, the penalty has no
    part in it.
    """
    examples, state, rule, is_finite = run.examples, run.state, run.rule, True
    for k in range(len(order)):
        i = order[k]
        norm = 0.0
        if extras is None:
            prediction = state.numbers[SCALE] * _product(matrix, csr, state.weights, i) + state.intercepts[0]
            norm = abs(_loss_and_slope(rule.loss, prediction, examples[i, TARGET], rule.epsilon)[1])
        if extras is not None:
            _fill_outputs(matrix, csr, state, extras.outputs, i)
            _slopes_in_place(extras.outputs, examples[i, TARGET], rule)
            norm = math.sqrt((extras.outputs**2).sum())
        scores[k] = norm * examples[i, SCORE_FACTOR]
        is_finite = is_finite and math.isfinite(scores[k])
    return is_finite


@_called
def unscale(state: State, extras: Extras | None) -> None:
    """Multiply the weights by their scale, which becomes 1."""
    weights, numbers = state.weights, state.numbers
    if extras is not None:
        for j in range(len(extras.missing)):
            extras.missing[j] -= numbers[AVERAGED] * weights[j]
        numbers[AVERAGED] = 0.0
    if numbers[SCALE] != 1.0:
        for j in range(len(weights)):
            weights[j] *= numbers[SCALE]
        numbers[SCALE] = 1.0


# Updates ----------------------------------------------------------------------------------------------------------


@_called
def train(  # noqa: PLR0917 - a compiled function takes no keywords
    matrix: Array | None,
    csr: SparseRows | None,
    extras: Extras | None,
    run: Run,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> int:
    """Update on the examples sequence[begin:end], one at a time; step numbers are first_step + position.

    Returns the position reached: `end`, or that of the first output that is not finite.
    """
    if extras is not None:
        return _train_general(matrix, csr, extras, run, begin, end, first_step, epoch)
    return _train_single(matrix, csr, run, begin, end, first_step, epoch)


@_inlined
def _add_to(matrix: Array | None, csr: SparseRows | None, weights: Array, i: int, change: float) -> None:
    """Add change * x_i to the weights."""
    if matrix is not None:
        for j in range(matrix.shape[1]):
            weights[j] += change * matrix[i, j]
    if csr is not None:
        for k in range(csr.starts[i], csr.starts[i + 1]):
            weights[csr.columns[k]] += change * csr.entries[k]


@_part
def _train_single(  # noqa: PLR0917
    matrix: Array | None, csr: SparseRows | None, run: Run, begin: int, end: int, first_step: int, epoch: int
) -> int:
    """One output, L2 penalty: sums and the squared norm of the weights stay in registers."""
    examples, state, rule, plan = run
    weights, numbers, sequence, rates = state.weights, state.numbers, plan.sequence, plan.rates
    intercept, norm, scale = state.intercepts[0], numbers[SQUARED_NORM], numbers[SCALE]
    loss_sum, weight_sum, norm_sum, position = 0.0, 0.0, 0.0, begin
    while position < end:
        i = sequence[position]
        product = scale * _product(matrix, csr, weights, i)
        prediction = product + intercept
        if not math.isfinite(prediction):
            break
        rate = _learning_rate(rule, rates, position, first_step + position, epoch)
        weight = examples[i, WEIGHT]
        loss, slope = _loss_and_slope(rule.loss, prediction, examples[i, TARGET], rule.epsilon)
        loss_sum += weight * loss
        weight_sum += weight
        norm_sum += norm
        kept, update = max(0.0, 1.0 - rate * rule.l2), -rate * weight * slope
        scale *= kept
        if scale < _SMALLEST_SCALE:
            for j in range(len(weights)):
                weights[j] *= scale
            scale = 1.0
        change = update / scale
        if change != 0.0:
            _add_to(matrix, csr, weights, i, change)
        if rule.fit_intercept:
            intercept += update
        norm = kept * kept * norm + update * (2.0 * kept * product + update * examples[i, SQUARED_LENGTH])
        position += 1
    state.intercepts[0], numbers[SQUARED_NORM], numbers[SCALE] = intercept, norm, scale
    numbers[LOSSES] += loss_sum
    numbers[EXAMPLE_WEIGHTS] += weight_sum
    numbers[PENALTIES] += 0.5 * rule.l2 * norm_sum
    return position


@_part
def _train_general(  # noqa: PLR0917
    matrix: Array | None,
    csr: SparseRows | None,
    extras: Extras,
    run: Run,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> int:
    """Any number of outputs, any penalty, with or without an average."""
    examples, state, rule, plan = run
    numbers, outputs = state.numbers, extras.outputs
    for position in range(begin, end):
        i = plan.sequence[position]
        _fill_outputs(matrix, csr, state, outputs, i)
        for c in range(len(outputs)):
            if not math.isfinite(outputs[c]):
                return position
        rate = _learning_rate(rule, plan.rates, position, first_step + position, epoch)
        weight = examples[i, WEIGHT]
        numbers[LOSSES] += weight * _slopes_in_place(outputs, examples[i, TARGET], rule)
        numbers[EXAMPLE_WEIGHTS] += weight
        numbers[PENALTIES] += 0.5 * rule.l2 * numbers[SQUARED_NORM] + rule.l1 * numbers[L1_NORM]
        kept = max(0.0, 1.0 - rate * rule.l2)
        numbers[SQUARED_NORM] *= kept * kept
        numbers[L1_NORM] *= kept
        numbers[SCALE] *= kept
        if numbers[SCALE] < _SMALLEST_SCALE:
            unscale(state, extras)
        numbers[THRESHOLD] += rate * rule.l1
        for c in range(len(outputs)):
            outputs[c] *= -rate * weight
        _add_row(matrix, csr, state, extras, rule, i)
        if rule.fit_intercept:
            for c in range(len(outputs)):
                state.intercepts[c] += outputs[c]
        if first_step + position >= rule.first_averaged:
            numbers[AVERAGED] += numbers[SCALE]
            for c in range(len(outputs)):
                extras.intercept_sums[c] += state.intercepts[c]
    return end


@_part
def _add_row(  # noqa: PLR0917
    matrix: Array | None, csr: SparseRows | None, state: State, extras: Extras, rule: Rule, i: int
) -> None:
    """Add outputs x_i^T to the weights, where `outputs` holds the updates; the weights then pay the L1 penalty."""
    numbers, outputs, weights = state.numbers, extras.outputs, state.weights
    scale, squares, absolutes = numbers[SCALE], 0.0, 0.0
    begin, end = _bounds(matrix, csr, i)
    for k in range(begin, end):
        column, value = _entry(matrix, csr, i, k)
        if value != 0.0:  # as in a sparse row, so that dense and sparse inputs give the same model
            for c in range(len(outputs)):
                place = column * len(outputs) + c
                before = weights[place]
                after = before + outputs[c] / scale * value
                if rule.l1 > 0.0:
                    after = _penalised(after, scale, numbers[THRESHOLD], extras.penalised, place)
                weights[place] = after
                squares += after * after - before * before
                absolutes += abs(after) - abs(before)
                if numbers[AVERAGED] > 0.0:
                    extras.missing[place] += numbers[AVERAGED] * (after - before)
    numbers[SQUARED_NORM] += scale * scale * squares
    numbers[L1_NORM] += scale * absolutes


@_part
def _penalised(weight: float, scale: float, threshold: float, penalised: Array, place: int) -> float:
    """Move a weight towards zero, and not beyond, by the penalty that it still owes (Tsuruoka and others, 2009)."""
    after = weight
    if weight > 0.0:
        after = max(0.0, weight - (threshold + penalised[place]) / scale)
    elif weight < 0.0:
        after = min(0.0, weight + (threshold - penalised[place]) / scale)
    penalised[place] += scale * (after - weight)
    return after


# Epochs -----------------------------------------------------------------------------------------------------------


@_called
def run_epochs(  # noqa: PLR0917 - a compiled function takes no keywords
    matrix: Array | None,
    csr: SparseRows | None,
    extras: Extras | None,
    sorting: Sorting | None,
    run: Run,
    curve: Array,
    first_step: int,
    epoch: int,
    num_epochs: int,
) -> tuple[int, int, int]:
    """Train for `num_epochs` epochs, or until the objective no longer falls or a number is not finite.

    Returns the status, the next epoch and the next step; after a divergence, the epoch and the step of it.
    """
    state, length, step, status = run.state, run.plan.length, first_step, FINISHED
    for place in range(num_epochs):
        begin_epoch(state)
        if not _train_epoch(matrix, csr, extras, sorting, run, step, epoch):
            return DIVERGED, epoch, step + length[0]
        status = end_epoch(state, run.rule, length[0], curve, place)
        if status == DIVERGED:
            return DIVERGED, epoch, step + length[0] - 1
        step += length[0]
        epoch += 1
        if status == CONVERGED:
            break
    unscale(state, extras)
    return status, epoch, step


@_part
def _train_epoch(  # noqa: PLR0917
    matrix: Array | None,
    csr: SparseRows | None,
    extras: Extras | None,
    sorting: Sorting | None,
    run: Run,
    first_step: int,
    epoch: int,
) -> bool:
    """Train one epoch by the rule; return whether all numbers stayed finite. plan.length[0] counts its steps."""
    rule, order, sequence, length = run.rule, run.plan.order, run.plan.sequence, run.plan.length
    end: Any = np.int64(0)  # a plain 0 has a type of its own, for which numba would compile `train` once more
    replays = rule.flip_flop and epoch % 2 == 1 and length[0] > 0
    if replays:
        _reverse(sequence, length[0])
    if replays or rule.order == GIVEN_ORDER:
        num = length[0]
        length[0] = train(matrix, csr, extras, run, end, num, first_step, epoch)
        return bool(length[0] == num)
    _fill_order(rule, order, epoch)
    size = rule.batch_size if rule.batch_size > 0 and epoch >= rule.start_epoch else len(order)
    for begin in range(0, len(order), size):
        batch = order[begin : begin + size]
        num = _choose(matrix, csr, extras, sorting, run, batch, sequence[end:], epoch)
        length[0] = end
        if num > 0:
            length[0] = train(matrix, csr, extras, run, end, end + num, first_step, epoch)
        if length[0] < end + max(num, 1):
            return False
        end += num
    return True


@_part
def _reverse(values: Array, num: int) -> None:
    """Reverse the first `num` values."""
    for k in range(num // 2):
        values[k], values[num - 1 - k] = values[num - 1 - k], values[k]


@_part
def _sorts(rule: Rule) -> bool:
    return rule.order == DESCENDING or rule.order == ASCENDING  # noqa: PLR1714 - numba has slow sets


@_part
def _fill_order(rule: Rule, order: Array, epoch: int) -> None:
    """Fill `order` with the examples as an epoch scores them, or cuts them into batches."""
    is_started = epoch >= rule.start_epoch
    if is_started and (rule.order == SEQUENTIAL or (_sorts(rule) and rule.batch_size == 0)):
        for i in range(len(order)):
            order[i] = i
    else:
        shuffle(order, rule.key, 0 if is_started and rule.order == SHUFFLED_ONCE else epoch)


@_part
def _choose(  # noqa: PLR0917
    matrix: Array | None,
    csr: SparseRows | None,
    extras: Extras | None,
    sorting: Sorting | None,
    run: Run,
    batch: Array,
    chosen: Array,
    epoch: int,
) -> int:
    """Write the kept examples of a batch to `chosen`, in the rule's order; return their number.

    Algorithm 1 keeps the beginning of the order, Algorithm 2 the hardest examples. Returns -1 if a score is not finite.
    """
    rule, size, is_started = run.rule, len(batch), epoch >= run.rule.start_epoch
    num = num_kept(rule.keep, size) if is_started else size
    if sorting is not None:
        takes_hardest = rule.batch_size > 0 and num < size
        if is_started and (_sorts(rule) or takes_hardest):
            scores = sorting.scores[:size]
            if not fill_scores(matrix, csr, extras, run, batch, scores):
                return -1
            places = argsort(scores, takes_hardest or rule.order == DESCENDING, sorting)[:num]
            if takes_hardest and rule.order != DESCENDING:
                places = np.sort(places)
                if rule.order == ASCENDING:
                    places = places[argsort(scores[places], False, sorting)]
            for k in range(num):
                chosen[k] = batch[places[k]]
            return num
    for k in range(num):
        chosen[k] = batch[k]
    return num


@_called
def begin_epoch(state: State) -> None:
    """Set the sums to zero and compute the norms of the weights anew."""
    numbers, weights = state.numbers, state.weights
    squares, absolutes = 0.0, 0.0
    for j in range(len(weights)):
        squares += weights[j] * weights[j]
        absolutes += abs(weights[j])
    numbers[SQUARED_NORM] = numbers[SCALE] * numbers[SCALE] * squares
    numbers[L1_NORM] = numbers[SCALE] * absolutes
    numbers[LOSSES], numbers[EXAMPLE_WEIGHTS], numbers[PENALTIES] = 0.0, 0.0, 0.0


@_part
def _are_finite(values: Array) -> bool:
    for k in range(len(values)):  # noqa: SIM110 - numba compiles no generators in `all`
        if not math.isfinite(values[k]):
            return False
    return True


@_called
def end_epoch(state: State, rule: Rule, num_steps: int, curve: Array, place: int) -> int:
    """Write the mean objective of the epoch to curve[place] and return the status.

    The objective is the weighted mean of the losses before each update, plus the penalty. Training has converged if it
    has not fallen by more than `tol` for `patience` epochs.
    """
    numbers = state.numbers
    objective = numbers[PENALTIES] / num_steps
    if numbers[EXAMPLE_WEIGHTS] > 0.0:
        objective += numbers[LOSSES] / numbers[EXAMPLE_WEIGHTS]
    curve[place] = objective
    if not (_are_finite(state.weights) and _are_finite(state.intercepts)):
        return DIVERGED
    has_progress = objective <= numbers[BEST] - rule.tol
    numbers[NUM_WITHOUT_PROGRESS] = 0.0 if has_progress else numbers[NUM_WITHOUT_PROGRESS] + 1.0
    numbers[BEST] = min(numbers[BEST], objective)
    return CONVERGED if rule.tol > -np.inf and numbers[NUM_WITHOUT_PROGRESS] >= rule.patience else FINISHED

"""Epochs by a rule (Algorithms 1 and 2): what Python calls."""

import math
from typing import NamedTuple

import numpy as np

from gradorder.checks import ROUNDING
from gradorder.sklearn.compiled import models, updates
from gradorder.sklearn.compiled.decorators import Array, MatrixRows, kept, part
from gradorder.sklearn.compiled.models import (
    BEST,
    EXAMPLE_WEIGHTS,
    L1_NORM,
    LOSSES,
    NUM_WITHOUT_PROGRESS,
    PENALTIES,
    SCALE,
    SQUARED_NORM,
    State,
    fill_scores,
)
from gradorder.sklearn.compiled.rule import (
    ASCENDING,
    DESCENDING,
    GIVEN_ORDER,
    SEQUENTIAL,
    SHUFFLED_ONCE,
    Rule,
)
from gradorder.sklearn.compiled.shuffling import shuffle
from gradorder.sklearn.compiled.sorting import Sorting, argsort

FINISHED, CONVERGED, DIVERGED = range(3)


class Plan(NamedTuple):
    """The order of an epoch; the last one must survive between calls."""

    order: Array
    """What the epoch starts from: what is scored, what batches are cut from."""
    sequence: Array
    length: Array
    """How much of the sequence counts."""
    sizes: Array
    """The step sizes of the epoch where the rule has no formula for them."""


@kept
def num_kept(keep: float, size: int) -> int:
    """`gradorder.parts.part_of`, written again to be compiled; a test holds the two together."""
    return max(1, math.ceil(keep * size * (1 - ROUNDING)))


# Orders -----------------------------------------------------------------------------------------------------------


@part
def _lay_out(rule: Rule, order: Array, epoch: int) -> None:
    """The order that an epoch starts from."""
    is_started = epoch >= rule.start_epoch
    is_sorted = (rule.order == DESCENDING or rule.order == ASCENDING) and rule.batch_size == 0  # noqa: PLR1714 - numba has slow sets
    if is_started and (rule.order == SEQUENTIAL or is_sorted):
        for i in range(len(order)):
            order[i] = i
    else:
        shuffle(order, len(order), rule.key, 0 if is_started and rule.order == SHUFFLED_ONCE else epoch)


@part
def _choose(  # noqa: PLR0917 - a compiled function takes no keywords
    rows: MatrixRows,
    examples: Array,
    model: State,
    rule: Rule,
    sorting: Sorting,
    batch: Array,
    chosen: Array,
) -> int:
    """Of a batch, what is kept, in the rule's order; returns how many, or -1 where scores are not finite."""
    size, scores, places = len(batch), sorting.scores, sorting.places
    num, total = num_kept(rule.keep, size), 0.0
    fill_scores(rows, examples, model, rule, batch, scores)
    for k in range(size):
        total += 0.0 * scores[k]
    if updates.not_finite(1.0 + total):
        return -1
    selects = rule.batch_size > 0 and num < size
    argsort(size, selects or rule.order == DESCENDING, sorting)
    if selects and rule.order == ASCENDING:
        _reverse_stably(places, scores, num)
    elif selects and rule.order != DESCENDING:
        _sort_places(places, sorting.spare_places, num, size)
    for k in range(num):
        chosen[k] = batch[places[k]]
    return num


@part
def _reverse(values: Array, begin: int, end: int) -> None:
    """values[begin:end] backwards."""
    for k in range((end - begin) // 2):
        values[begin + k], values[end - 1 - k] = values[end - 1 - k], values[begin + k]


@part
def _reverse_stably(places: Array, scores: Array, num: int) -> None:
    """From a stable descending to a stable ascending order: backwards, but not among equals."""
    _reverse(places, 0, num)
    begin = 0
    for k in range(1, num + 1):
        if k == num or scores[places[k]] != scores[places[begin]]:
            _reverse(places, begin, k)
            begin = k


@part
def _sort_places(places: Array, is_kept: Array, num: int, size: int) -> None:
    """The first `num` places in increasing order."""
    for k in range(size):
        is_kept[k] = 0
    for k in range(num):
        is_kept[places[k]] = 1
    num_found = 0
    for k in range(size):
        if is_kept[k] == 1:
            places[num_found] = k
            num_found += 1


# Epochs -----------------------------------------------------------------------------------------------------------


@part
def train_epoch(  # noqa: PLR0917 - a compiled function takes no keywords
    rows: MatrixRows,
    examples: Array,
    model: State,
    rule: Rule,
    plan: Plan,
    sorting: Sorting | None,
    first_step: int,
    epoch: int,
) -> bool:
    """One epoch by the rule; whether its numbers stayed finite. plan.length[0] counts its steps.

    Algorithm 2 is a loop over batches: score each at the weights it finds, keep its hardest, update on them one at a
    time. Algorithm 1 is the same with all examples as the one batch. Without `sorting` nothing is compiled that
    scores and sorts.
    """
    order, sequence, length = plan.order, plan.sequence, plan.length
    is_started = epoch >= rule.start_epoch
    is_ready = rule.order == GIVEN_ORDER
    if rule.flip_flop and epoch % 2 == 1 and length[0] > 0:
        _reverse(sequence, 0, length[0])
        is_ready = True
    if not is_ready:
        _lay_out(rule, order, epoch)
    batch_size = rule.batch_size if rule.batch_size > 0 and is_started and not is_ready else len(order)
    end = 0
    for begin in range(0, len(order), batch_size):
        batch, num = order[begin : begin + batch_size], length[0]
        if not is_ready:
            num = num_kept(rule.keep, len(batch)) if is_started else len(batch)
            for k in range(num):
                sequence[end + k] = batch[k]
            if sorting is not None:
                is_sorted = rule.order == DESCENDING or rule.order == ASCENDING  # noqa: PLR1714 - numba has slow sets
                if is_started and (is_sorted or (rule.batch_size > 0 and num < len(batch))):
                    num = _choose(rows, examples, model, rule, sorting, batch, sequence[end:])
        reached = end
        if num > 0:
            reached = updates.train(
                rows, examples, model, rule, sequence, plan.sizes, end, end + num, first_step, epoch
            )
        if reached < end + max(num, 1):
            length[0] = reached
            return False
        end += num
    length[0] = end
    return True


@kept
def begin_epoch(model: State) -> None:
    """Sums at zero, the norms of the weights computed anew."""
    numbers, weights = model.numbers, model.weights
    squares, absolutes = 0.0, 0.0
    for j in range(len(weights)):
        squares += weights[j] * weights[j]
        absolutes += abs(weights[j])
    numbers[SQUARED_NORM] = numbers[SCALE] * numbers[SCALE] * squares
    numbers[L1_NORM] = numbers[SCALE] * absolutes
    numbers[LOSSES], numbers[EXAMPLE_WEIGHTS], numbers[PENALTIES] = 0.0, 0.0, 0.0


@kept
def end_epoch(model: State, rule: Rule, num_steps: int, curve: Array, place: int) -> int:
    """Write the mean objective of the steps to curve[place], and say how training stands.

    Weighted losses before each update, and the penalty. Training has converged where the objective has made no
    progress of more than `tol` for `patience` epochs.
    """
    numbers, weights, total = model.numbers, model.weights, 0.0
    objective = numbers[PENALTIES] / num_steps
    if numbers[EXAMPLE_WEIGHTS] > 0.0:
        objective += numbers[LOSSES] / numbers[EXAMPLE_WEIGHTS]
    curve[place] = objective
    for j in range(len(weights)):
        total += 0.0 * weights[j]
    for c in range(len(model.intercepts)):
        total += 0.0 * model.intercepts[c]
    if updates.not_finite(1.0 + total):
        return DIVERGED
    has_progress = objective <= numbers[BEST] - rule.tol
    numbers[NUM_WITHOUT_PROGRESS] = 0.0 if has_progress else numbers[NUM_WITHOUT_PROGRESS] + 1.0
    numbers[BEST] = min(numbers[BEST], objective)
    return CONVERGED if rule.tol > -np.inf and numbers[NUM_WITHOUT_PROGRESS] >= rule.patience else FINISHED


@kept
def run_epochs(  # noqa: PLR0917 - a compiled function takes no keywords
    rows: MatrixRows,
    examples: Array,
    model: State,
    rule: Rule,
    plan: Plan,
    sorting: Sorting | None,
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
        begin_epoch(model)
        if not train_epoch(rows, examples, model, rule, plan, sorting, step, epoch):
            return DIVERGED, epoch, step + plan.length[0]
        status = end_epoch(model, rule, plan.length[0], curve, place)
        if status == DIVERGED:
            return DIVERGED, epoch, step + plan.length[0] - 1
        step += plan.length[0]
        epoch += 1
        if status == CONVERGED:
            break
    models.unscale(model)
    return status, epoch, step


# For orders that only Python knows --------------------------------------------------------------------------------


@kept
def scores_of(rows: MatrixRows, examples: Array, model: State, rule: Rule, order: Array) -> Array:
    """The scores of the examples in `order` at the current weights."""
    scores = np.empty(len(order))
    fill_scores(rows, examples, model, rule, order, scores)
    return scores


@kept
def train_part(  # noqa: PLR0917 - a compiled function takes no keywords
    rows: MatrixRows,
    examples: Array,
    model: State,
    rule: Rule,
    plan: Plan,
    begin: int,
    end: int,
    first_step: int,
    epoch: int,
) -> int:
    """Update on sequence[begin:end], as a part of an epoch."""
    return updates.train(rows, examples, model, rule, plan.sequence, plan.sizes, begin, end, first_step, epoch)


@kept
def settle(model: State) -> None:
    """The weights as they are after an epoch."""
    models.unscale(model)

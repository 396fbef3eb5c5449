"""One training run of one model, epoch after epoch: in one compiled call where the loop knows the order by itself."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from gradorder.compilation import announced
from gradorder.orderings import Ordering, Request
from gradorder.orderings.ordering import checked_order
from gradorder.checks import part_of
from gradorder.orderings.ordering import epoch_generator
from gradorder.sklearn import compiled
from gradorder.sklearn.compiled import Array, MatrixRows, Plan, Rule
from gradorder.sklearn.compiled.models import BEST, NUM_NUMBERS, SCALE, Full, Plain
from gradorder.sklearn.compiled.vectors import LANES
from gradorder.sklearn.step_sizes import StepSizes

_WORK_AT_ONCE = 10**9  # numbers of the data matrix in one compiled call, about a second: it cannot be interrupted
_NEVER = 2**62  # a step that is not reached

Matrix = Any
"""(n, d), a C-contiguous array or a CSR matrix in canonical form."""


class Model(NamedTuple):
    """Weights (d,) and one intercept, or for the softmax (K, d) and K intercepts; float64."""

    weights: Array
    intercepts: Array


class Progress(NamedTuple):
    """Updates and epochs so far."""

    step: int = 0
    epoch: int = 0


@dataclass(frozen=True)
class Trained:
    """What came out of a run."""

    model: Model
    """After the last step."""
    average: Model | None
    """Over the steps that count, where there are any."""
    progress: Progress
    curve: list[float]
    has_converged: bool


def rows_of(matrix: Matrix) -> MatrixRows:
    """The data as the compiled loop reads it, without a copy; read-only, so that it is compiled once for both kinds."""
    if not sp.issparse(matrix):
        return _read_only(matrix)
    return _read_only(matrix.data), _read_only(matrix.indices), _read_only(matrix.indptr)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def squared_norms(matrix: Matrix) -> Array:
    """||x_i||^2 of every row, float64."""
    if not sp.issparse(matrix):
        norms: Array = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)
        return norms
    squares = np.square(matrix.data, dtype=np.float64)
    return np.asarray(sp.csr_array((squares, matrix.indices, matrix.indptr), shape=matrix.shape).sum(axis=1))


def examples_of(targets: Array, weights: Array, norms: Array, *, fit_intercept: bool) -> Array:
    """What the loop reads of each example beside its row, (n, 4).

    Target, weight, ||x_i||^2, and weight_i sqrt(||x_i||^2 + 1), without the 1 where there is no intercept: the score
    is this times the slope of the loss.
    """
    return np.column_stack([targets, weights, norms, weights * np.sqrt(norms + fit_intercept)])


@dataclass
class Training:
    """A run under way.

    Args:
        matrix: (n, d), a C-contiguous array or a canonical CSR matrix.
        examples: of `examples_of`; targets are -1 and 1, or labels 0..K-1, for the classifiers.
        model: where to start; not changed.
        average: of the steps that count so far.
        rule: how to train.
        ordering: of the even epochs; asked where the rule says that the order is given.
        step_sizes: asked where the rule says that the sizes are given.
        progress: where to go on.
    """

    matrix: Matrix
    examples: Array
    model: Model
    average: Model | None
    rule: Rule
    ordering: Ordering
    step_sizes: StepSizes
    progress: Progress

    def __post_init__(self) -> None:
        num_examples = self.matrix.shape[0]
        self._rows = rows_of(self.matrix)
        self._state = _state_of(self.model, self.rule, self._sum_of_average())
        order, sequence = np.empty((2, num_examples), dtype=np.int64)
        self._plan = Plan(order, sequence, np.zeros(1, dtype=np.int64), np.empty(0))
        self._sorting = compiled.sorting_for(num_examples) if _sorts(self.rule) else None

    def run(self, num_epochs: int, stop: Callable[[Model], bool] | None = None) -> Trained:
        """Train for at most so many epochs; `stop` is asked after each.

        Raises:
            ValueError: the weights are no longer finite, or a step size is not, or is negative.
        """
        curve = np.empty(num_epochs)
        done, status = 0, compiled.FINISHED
        with announced(
            "gradorder.sklearn compiles its training loop for this kind of data: some seconds, now and for each new "
            "kind; numba keeps it on disk for the next process, where it can"
        ):
            while done < num_epochs and status == compiled.FINISHED:
                num_now = min(num_epochs - done, 1 if stop else self._epochs_at_once())
                before = self.progress.epoch
                status = self._run_epochs(curve[done:], num_now)
                done += self.progress.epoch - before
                if stop and status == compiled.FINISHED and stop(self._current()):
                    status = compiled.CONVERGED
        has_converged = status == compiled.CONVERGED
        return Trained(self._current(), self._average(), self.progress, curve[:done].tolist(), has_converged)

    def _epochs_at_once(self) -> int:
        if self.rule.order == compiled.GIVEN_ORDER or self.rule.schedule == compiled.GIVEN_SIZES:
            return 1
        return max(1, _WORK_AT_ONCE // max(1, int(self.matrix.size) * len(self._state.intercepts)))

    def _run_epochs(self, curve: Array, num_epochs: int) -> int:
        step, epoch = self.progress
        if self.rule.schedule == compiled.GIVEN_SIZES:
            sizes = [self._given_size(step + k, epoch) for k in range(self._num_steps(epoch))]
            self._plan = self._plan._replace(sizes=np.array(sizes))
        if self._asks_ordering(epoch):
            status, epoch, step = self._run_given_order(curve)
        else:
            # An epoch before the start, or one that replays another, needs no order from outside.
            rule = self.rule._replace(order=compiled.SHUFFLED) if self.rule.order == compiled.GIVEN_ORDER else self.rule
            status, epoch, step = self._run_compiled(rule, curve, num_epochs)
        if status != compiled.DIVERGED and not self._is_finite():
            # Looked at here too: compiled by numba 0.60, the loop misses it after the last step of all.
            status, epoch, step = compiled.DIVERGED, epoch - 1, step - 1
        if status == compiled.DIVERGED:
            raise ValueError(self._divergence(step, epoch))
        self.progress = Progress(step, epoch)
        return status

    def _given_size(self, step: int, epoch: int) -> float:
        size = float(self.step_sizes(step, epoch))
        if not 0 <= size < math.inf:
            raise ValueError(
                f"schedule must give step sizes that are finite and not negative, got {size} at step {step} "
                f"(epoch {epoch})"
            )
        return size

    def _is_finite(self) -> bool:
        return bool(np.isfinite(self._state.weights).all() and np.isfinite(self._state.intercepts).all())

    def _run_compiled(self, rule: Rule, curve: Array, num_epochs: int) -> tuple[int, int, int]:
        return compiled.run_epochs(
            self._rows, self.examples, self._state, rule, self._plan, self._sorting, curve, *self.progress, num_epochs
        )

    def _num_steps(self, epoch: int) -> int:
        num, size, keep = int(self.matrix.shape[0]), self.rule.batch_size, self.rule.keep
        if self._replays(epoch):
            return int(self._plan.length[0])
        if epoch < self.rule.start_epoch:
            return num
        sizes = [min(size, num - begin) for begin in range(0, num, size)] if size else [num]
        return sum(part_of(keep, size) for size in sizes)

    def _replays(self, epoch: int) -> bool:
        return self.rule.flip_flop and epoch % 2 == 1 and int(self._plan.length[0]) > 0

    def _asks_ordering(self, epoch: int) -> bool:
        is_ordered = epoch >= self.rule.start_epoch and not self._replays(epoch)
        return is_ordered and self.rule.order == compiled.GIVEN_ORDER

    def _current(self) -> Model:
        return self._model_of(self._state.weights, self._state.intercepts)

    def _model_of(self, weights: Array, intercepts: Array) -> Model:
        """From the loop's layout: for one output a vector, for several a row each."""
        num_features, num_outputs = self.matrix.shape[1], len(intercepts)
        weights = weights[: num_features * num_outputs]
        return Model(weights if num_outputs == 1 else weights.reshape(num_features, num_outputs).T, intercepts)

    def _num_averaged(self) -> int:
        return max(0, self.progress.step - self.rule.first_averaged)

    def _average(self) -> Model | None:
        num = self._num_averaged()
        if not num or isinstance(self._state, Plain):
            return None
        return self._model_of(self._state.missing / -num, self._state.intercept_sums / num)

    def _sum_of_average(self) -> Model | None:
        num = self._num_averaged()
        return Model(num * self.average.weights, num * self.average.intercepts) if self.average and num else None

    def _divergence(self, step: int, epoch: int) -> str:
        return (
            f"training diverged: the model was no longer finite at step {step} (epoch {epoch}), where the step size "
            f"was {self.step_sizes(step, epoch):g} by schedule {self.step_sizes!r}: use a smaller eta0 or another "
            "schedule, or scale the features"
        )

    # Orderings that the compiled loop does not know ---------------------------------------------------------------

    def _run_given_order(self, curve: Array) -> tuple[int, int, int]:
        """One epoch in the order of the ordering object; as `compiled.run_epochs`."""
        step, epoch = self.progress
        generator = epoch_generator(int(self.rule.key), epoch)
        everything = np.arange(self.matrix.shape[0])
        if not self.rule.batch_size:
            scores = self._scores(everything, step) if self.ordering.needs_scores else None
            order = self._order(scores, len(everything), generator, None if self.rule.keep == 1 else self.rule.keep)
            self._plan.sequence[: len(order)] = order
            self._plan.length[0] = len(order)
            return self._run_compiled(self.rule, curve, 1)
        return self._run_given_batches(curve, generator)

    def _run_given_batches(self, curve: Array, generator: torch.Generator) -> tuple[int, int, int]:
        """Algorithm 2, batch after batch."""
        step, epoch = self.progress
        order, sequence, end = self._plan.order, self._plan.sequence, 0
        compiled.shuffle(order, len(order), self.rule.key, epoch)
        compiled.begin_epoch(self._state)
        for begin in range(0, len(order), self.rule.batch_size):
            batch = order[begin : begin + self.rule.batch_size]
            kept = self._kept(batch, step + end, generator)
            sequence[end : end + len(kept)] = kept
            reached = compiled.train_part(
                self._rows, self.examples, self._state, self.rule, self._plan, end, end + len(kept), step, epoch
            )
            if reached < end + len(kept):
                return compiled.DIVERGED, epoch, step + reached
            end += len(kept)
        self._plan.length[0] = end
        status = compiled.end_epoch(self._state, self.rule, end, curve, 0)
        compiled.settle(self._state)
        return status, epoch + (status != compiled.DIVERGED), step + end - (status == compiled.DIVERGED)

    def _kept(self, batch: Array, step: int, generator: torch.Generator) -> Array:
        """The hardest of the batch in the order of the ordering."""
        scores = self._scores(batch, step)
        hardest = np.sort(np.argsort(-scores, kind="stable")[: part_of(self.rule.keep, len(batch))])
        order: Array = batch[hardest][self._order(scores[hardest], len(hardest), generator)]
        return order

    def _scores(self, order: Array, step: int) -> Array:
        scores = compiled.scores_of(self._rows, self.examples, self._state, self.rule, order)
        if not np.isfinite(scores).all():
            raise ValueError(self._divergence(step, self.progress.epoch))
        return scores

    def _order(
        self, scores: Array | None, num_examples: int, generator: torch.Generator, keep: float | None = None
    ) -> Array:
        given = None if scores is None else torch.from_numpy(scores)
        request = Request(self.progress.epoch, num_examples, generator, given, keep=keep)
        order = checked_order(self.ordering, request, self.ordering.order(request))
        indices: Array = order.indices.numpy()
        return indices[::-1] if order.backwards else indices


def first_averaged(average: bool | int) -> int:
    """The first step, counted from 0, that counts in the average; averaging from the first on is both True and 1."""
    return int(average) - 1 if average else _NEVER


def _sorts(rule: Rule) -> bool:
    """Whether the loop itself ever scores and sorts."""
    if rule.order == compiled.GIVEN_ORDER:
        return False
    return rule.order in {compiled.DESCENDING, compiled.ASCENDING} or (rule.batch_size > 0 and rule.keep < 1)


def _state_of(model: Model, rule: Rule, averaged: Model | None) -> Plain | Full:
    numbers = np.zeros(NUM_NUMBERS)
    numbers[SCALE], numbers[BEST] = 1.0, np.inf
    intercepts = np.array(model.intercepts, dtype=np.float64)
    is_averaged = rule.first_averaged < _NEVER
    if rule.loss != compiled.MULTINOMIAL and not rule.l1 and not is_averaged:
        weights = np.array(model.weights, dtype=np.float64)
        return Plain(np.pad(weights, (0, -len(weights) % LANES)), intercepts, numbers)  # whole vectors
    weights, nothing = _by_feature(model.weights), np.empty(0)
    missing = np.zeros_like(weights) if is_averaged else nothing
    intercept_sums = np.zeros_like(intercepts)
    if averaged:
        missing, intercept_sums = -_by_feature(averaged.weights), np.array(averaged.intercepts, dtype=np.float64)
    penalised = np.zeros_like(weights) if rule.l1 else nothing
    return Full(weights, intercepts, numbers, np.zeros_like(intercepts), penalised, missing, intercept_sums)


def _by_feature(weights: Array) -> Array:
    """All weights as one vector, those of one feature together."""
    return np.array(weights, dtype=np.float64).T.flatten()

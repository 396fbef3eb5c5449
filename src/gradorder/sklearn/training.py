"""One training run of one model, epoch after epoch; as many epochs as possible in one compiled call."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from gradorder.checks import part_of
from gradorder.orderings import Ordering, Request
from gradorder.orderings.ordering import checked_order, epoch_generator
from gradorder.sklearn import compiled
from gradorder.sklearn.compiled import Array, Extras, Plan, Rule, Run, Sorting, SparseRows, State
from gradorder.sklearn.learning_rates import LearningRates

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
    """The result of a run."""

    model: Model
    """After the last step."""
    average: Model | None
    """The mean over the averaged steps, if there are any."""
    progress: Progress
    curve: list[float]
    has_converged: bool


def rows_of(matrix: Matrix) -> tuple[Array | None, SparseRows | None]:
    """Return the dense or the sparse inputs as the compiled loop reads them, without a copy."""
    if not sp.issparse(matrix):
        return _read_only(matrix), None
    columns, starts = matrix.indices.view(np.uint32), matrix.indptr.view(np.uint32)
    return None, SparseRows(*map(_read_only, (matrix.data, columns, starts)))


def _read_only(array: Array) -> Array:
    """A view that cannot be written to: numba compiles once for data of both kinds."""
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
    """Return target, weight, ||x_i||^2 and weight_i sqrt(||x_i||^2 + 1) of every example, (n, 4).

    The last column has no 1 without an intercept. The score of an example is this times the derivative of its loss.
    """
    return np.column_stack([targets, weights, norms, weights * np.sqrt(norms + fit_intercept)])


@dataclass
class Training:
    """A run under way.

    Args:
        matrix: (n, d), a C-contiguous array or a canonical CSR matrix.
        examples: of `examples_of`; targets are -1 and 1, or labels 0..K-1, for the classifiers.
        model: the initial model; not changed.
        average: of the averaged steps so far.
        rule: how to train.
        ordering: used if the compiled loop does not know it.
        learning_rates: used if the compiled loop has no formula for them.
        progress: updates and epochs so far.
    """

    matrix: Matrix
    examples: Array
    model: Model
    average: Model | None
    rule: Rule
    ordering: Ordering
    learning_rates: LearningRates
    progress: Progress

    def __post_init__(self) -> None:
        self._rows = rows_of(self.matrix)
        self._state, self._extras = state_of(self.model, self.rule, self._sum_of_average())
        num = self.matrix.shape[0]
        order, sequence = np.empty((2, num), dtype=np.int64)
        self._plan = Plan(order, sequence, np.zeros(1, dtype=np.int64), np.empty(0))
        self._sorting = sorting_for(num) if _sorts(self.rule) else None

    def run(self, num_epochs: int, stop: Callable[[Model], bool] | None = None) -> Trained:
        """Train for at most `num_epochs` epochs; `stop` is asked after each.

        Raises:
            ValueError: the weights are no longer finite, or a learning rate is negative or not finite.
        """
        curve = np.empty(num_epochs)
        done, status = 0, compiled.FINISHED
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
        if self.rule.order == compiled.GIVEN_ORDER or self.rule.schedule == compiled.GIVEN_RATES:
            return 1
        return max(1, _WORK_AT_ONCE // max(1, int(self.matrix.size) * len(self._state.intercepts)))

    def _run_epochs(self, curve: Array, num_epochs: int) -> int:
        step, epoch = self.progress
        if self.rule.schedule == compiled.GIVEN_RATES:
            rates = [self._given_rate(step + k, epoch) for k in range(self._num_steps(epoch))]
            self._plan = self._plan._replace(rates=np.array(rates))
        if self._asks_ordering(epoch):
            status, epoch, step = self._run_given_order(curve)
        else:
            # An epoch before the start, or one that replays another, does not ask the ordering.
            rule = self.rule._replace(order=compiled.SHUFFLED) if self.rule.order == compiled.GIVEN_ORDER else self.rule
            status, epoch, step = self._run_compiled(rule, curve, num_epochs)
        if status == compiled.DIVERGED:
            raise ValueError(self._divergence(step, epoch))
        self.progress = Progress(step, epoch)
        return status

    def _given_rate(self, step: int, epoch: int) -> float:
        rate = float(self.learning_rates(step, epoch))
        if not 0 <= rate < math.inf:
            raise ValueError(
                f"schedule must give finite learning rates >= 0, got {rate} at step {step} (epoch {epoch})"
            )
        return rate

    def _run_compiled(self, rule: Rule, curve: Array, num_epochs: int) -> tuple[int, int, int]:
        run = self._run()._replace(rule=rule)
        return compiled.run_epochs(*self._rows, self._extras, self._sorting, run, curve, *self.progress, num_epochs)

    def _run(self) -> Run:
        return Run(self.examples, self._state, self.rule, self._plan)

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
        """From the layout of the loop: a vector for one output, else a row for each."""
        num_outputs = len(intercepts)
        return Model(weights if num_outputs == 1 else weights.reshape(-1, num_outputs).T, intercepts)

    def _num_averaged(self) -> int:
        return max(0, self.progress.step - self.rule.first_averaged)

    def _average(self) -> Model | None:
        num, extras = self._num_averaged(), self._extras
        return self._model_of(extras.missing / -num, extras.intercept_sums / num) if num and extras else None

    def _sum_of_average(self) -> Model | None:
        num = self._num_averaged()
        return Model(num * self.average.weights, num * self.average.intercepts) if self.average and num else None

    def _divergence(self, step: int, epoch: int) -> str:
        return (
            f"training diverged: the model was no longer finite at step {step} (epoch {epoch}), where the learning "
            f"rate was {self.learning_rates(step, epoch):g} by schedule {self.learning_rates!r}. Use a smaller eta0 or "
            "another schedule, or scale the features"
        )

    # Orderings that the compiled loop does not know ---------------------------------------------------------------

    def _run_given_order(self, curve: Array) -> tuple[int, int, int]:
        """Train one epoch in the order of the ordering object; returns what `compiled.run_epochs` returns."""
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
        compiled.shuffle(order, self.rule.key, epoch)
        compiled.begin_epoch(self._state)
        for begin in range(0, len(order), self.rule.batch_size):
            batch = order[begin : begin + self.rule.batch_size]
            kept = self._kept(batch, step + end, generator)
            sequence[end : end + len(kept)] = kept
            reached = compiled.train(*self._rows, self._extras, self._run(), end, end + len(kept), step, epoch)
            if reached < end + len(kept):
                return compiled.DIVERGED, epoch, step + reached
            end += len(kept)
        self._plan.length[0] = end
        status = compiled.end_epoch(self._state, self.rule, end, curve, 0)
        compiled.unscale(self._state, self._extras)
        return status, epoch + (status != compiled.DIVERGED), step + end - (status == compiled.DIVERGED)

    def _kept(self, batch: Array, step: int, generator: torch.Generator) -> Array:
        """Return the hardest examples of the batch in the order of the ordering."""
        scores = self._scores(batch, step)
        hardest = np.sort(np.argsort(-scores, kind="stable")[: part_of(self.rule.keep, len(batch))])
        order: Array = batch[hardest][self._order(scores[hardest], len(hardest), generator)]
        return order

    def _scores(self, order: Array, step: int) -> Array:
        scores = np.empty(len(order))
        if not compiled.fill_scores(*self._rows, self._extras, self._run(), order, scores):
            raise ValueError(self._divergence(step, self.progress.epoch))
        return scores

    def _order(
        self, scores: Array | None, num_examples: int, generator: torch.Generator, keep: float | None = None
    ) -> Array:
        given = None if scores is None else torch.from_numpy(scores)
        shared = 2 if self.rule.flip_flop else 1
        request = Request(self.progress.epoch, num_examples, generator, given, keep=keep, epochs_per_order=shared)
        order = checked_order(self.ordering, request, self.ordering.order(request))
        indices: Array = order.indices.numpy()
        return indices[::-1] if order.backwards else indices


def first_averaged(average: bool | int) -> int:
    """Return the first averaged step, counted from 0; True and 1 both average all steps."""
    return int(average) - 1 if average else _NEVER


def _sorts(rule: Rule) -> bool:
    """Whether the compiled loop ever scores and sorts."""
    if rule.order == compiled.GIVEN_ORDER:
        return False
    return rule.order in {compiled.DESCENDING, compiled.ASCENDING} or (rule.batch_size > 0 and rule.keep < 1)


def sorting_for(num: int) -> Sorting:
    """Return memory to sort `num` scores."""
    return Sorting(np.empty(num), np.empty((2, num), dtype=np.uint64), np.empty((2, num), dtype=np.int64))


def state_of(model: Model, rule: Rule, averaged: Model | None = None) -> tuple[State, Extras | None]:
    """Return the state of the compiled loop that starts with this model and this sum of averaged models."""
    numbers = np.zeros(compiled.NUM_NUMBERS)
    numbers[compiled.SCALE], numbers[compiled.BEST] = 1.0, np.inf
    state = State(_by_feature(model.weights), np.array(model.intercepts, dtype=np.float64), numbers)
    is_averaged = rule.first_averaged < _NEVER
    if rule.loss != compiled.MULTINOMIAL and not rule.l1 and not is_averaged:
        return state, None
    penalised, missing = (np.zeros(len(state.weights) if needed else 0) for needed in (rule.l1 > 0, is_averaged))
    sums = np.zeros_like(state.intercepts)
    if averaged:
        missing, sums = -_by_feature(averaged.weights), np.array(averaged.intercepts, dtype=np.float64)
    return state, Extras(np.zeros_like(sums), penalised, missing, sums)


def _by_feature(weights: Array) -> Array:
    """All weights as one vector, those of one feature together."""
    return np.array(weights, dtype=np.float64).T.flatten()

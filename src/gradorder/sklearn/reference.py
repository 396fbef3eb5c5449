"""Algorithms 1 and 2 for linear models in plain numpy: slow and obvious, what the compiled loop is tested against."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from gradorder.orderings import Descending, FlipFlop, Ordering, Sequential, Shuffled, ShuffledOnce
from gradorder.checks import part_of
from gradorder.orderings.ordering import epoch_generator
from gradorder.sklearn.compiled import Array
from gradorder.sklearn.step_sizes import StepSizes

Loss = Callable[[Array, float], tuple[float, Array]]
"""Outputs (K,) and target -> the loss and its gradient by the outputs (K,)."""

_NUM_64_BITS = 2**64
_NUM_32_BITS = 2**32


def squared_error(outputs: Array, target: float) -> tuple[float, Array]:
    """r^2 / 2 with r = w.x + b - y."""
    residual = outputs - target
    return float(residual[0] ** 2 / 2), residual


def huber(epsilon: float) -> Loss:
    """r^2 / 2 up to |r| = epsilon, linear beyond."""

    def loss(outputs: Array, target: float) -> tuple[float, Array]:
        residual = outputs - target
        if abs(residual[0]) <= epsilon:
            return squared_error(outputs, target)
        return float(epsilon * abs(residual[0]) - epsilon**2 / 2), epsilon * np.sign(residual)

    return loss


def quartic(outputs: Array, target: float) -> tuple[float, Array]:
    """r^4 + r^2, the paper's loss for Iris and Boston."""
    residual = outputs - target
    return float(residual[0] ** 4 + residual[0] ** 2), 4 * residual**3 + 2 * residual


def log_loss(outputs: Array, target: float) -> tuple[float, Array]:
    """log(1 + exp(-y p)), y of -1 or 1."""
    return float(np.logaddexp(0, -target * outputs[0])), -target / (1 + np.exp(target * outputs))


def hinge(outputs: Array, target: float) -> tuple[float, Array]:
    """max(0, 1 - y p), y of -1 or 1."""
    margin = target * outputs
    return float(max(0.0, 1 - margin[0])), np.where(margin <= 1, -target, 0.0)


def modified_huber(outputs: Array, target: float) -> tuple[float, Array]:
    """max(0, 1 - y p)^2, and -4 y p where y p < -1, y of -1 or 1."""
    margin = target * outputs
    if margin[0] < -1:
        return float(-4 * margin[0]), np.full(1, -4.0 * target)
    return float(max(0.0, 1 - margin[0]) ** 2), -2 * target * np.maximum(0.0, 1 - margin)


def multinomial(outputs: Array, target: float) -> tuple[float, Array]:
    """Cross-entropy of the softmax, labels 0..K-1."""
    log_probabilities = outputs - np.logaddexp.reduce(outputs)
    one_hot = np.arange(len(outputs)) == target
    return float(-log_probabilities[int(target)]), np.exp(log_probabilities) - one_hot


def shuffled(num_examples: int, key: int, epoch: int) -> Array:
    """The random order of an epoch, as the compiled loop draws it."""
    numbers = _SplitMix64(_mixed(key ^ _mixed(epoch + _SplitMix64.INCREMENT)))
    order = np.arange(num_examples)
    for i in range(num_examples - 1, 0, -1):
        j = numbers.below(i + 1)
        order[[i, j]] = order[[j, i]]
    return order


class _SplitMix64:
    """Steele, Lea and Flood's generator, with Lemire's way to numbers below a bound."""

    INCREMENT = 0x9E3779B97F4A7C15

    def __init__(self, state: int) -> None:
        self.state = state

    def below(self, bound: int) -> int:
        """Uniform over range(bound), without bias."""
        while True:
            self.state = (self.state + self.INCREMENT) % _NUM_64_BITS
            number, rest = divmod((_mixed(self.state) >> 32) * bound, _NUM_32_BITS)
            if rest >= _NUM_32_BITS % bound:
                return number


def _mixed(number: int) -> int:
    number %= _NUM_64_BITS
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % _NUM_64_BITS
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB % _NUM_64_BITS
    return number ^ (number >> 31)


@dataclass
class Reference:
    """A linear model and how it is trained; each call of `train_epoch` is one epoch.

    Args:
        inputs: (n, d), dense.
        targets: (n,), numbers, -1 and 1, or labels 0..K-1.
        example_weights: (n,).
        loss: one of this file.
        step_sizes: a function of step and epoch.
        ordering: the rule.
        num_outputs: 1, or K for the softmax.
        l2: of the penalty l2 / 2 ||w||^2.
        l1: of the penalty l1 ||w||_1.
        fit_intercept: whether there is one.
        batch_size: None for Algorithm 1.
        keep: the fraction of the order, or of each batch.
        start_epoch: random and complete before it.
        key: of the random orders.
        average: the number of the first update, from 1, that counts in `mean_weights`.

    Example:
        >>> model = Reference(np.eye(2), np.array([1.0, 3.0]), np.ones(2), squared_error, lambda step, epoch: 0.5)
        >>> objective = model.train_epoch()
        >>> model.sequence.tolist(), model.weights.tolist(), model.intercepts.tolist()
        ([1, 0], [[-0.25, 1.5]], [1.25])
    """

    inputs: Array
    targets: Array
    example_weights: Array
    loss: Loss
    step_sizes: StepSizes
    ordering: Ordering = field(default_factory=Descending)
    num_outputs: int = 1
    l2: float = 0.0
    l1: float = 0.0
    fit_intercept: bool = True
    batch_size: int | None = None
    keep: float = 1.0
    start_epoch: int = 0
    key: int = 0
    average: int = 1

    def __post_init__(self) -> None:
        self.weights = np.zeros((self.num_outputs, self.inputs.shape[1]))
        self.due, self.had = 0.0, np.zeros_like(self.weights)
        self.averaged: list[tuple[Array, Array]] = []
        self.intercepts = np.zeros(self.num_outputs)
        self.num_steps, self.num_epochs = 0, 0
        self.sequence = np.empty(0, dtype=np.int64)
        self.objectives: list[float] = []
        self.losses: list[tuple[float, float]] = []

    def score(self, i: int) -> float:
        """||M_i||, the norm of the gradient of the weighted loss of example i by weights and intercepts."""
        gradient = self.example_weights[i] * self._loss_gradient(i)[1]
        inputs = np.append(self.inputs[i], 1.0) if self.fit_intercept else self.inputs[i]
        return float(np.linalg.norm(np.outer(gradient, inputs)))

    def update(self, i: int) -> None:
        """One step on example i: w <- (1 - a l2) w - a grad f_i(w), and the L1 penalty; no factor is negative."""
        size = self.step_sizes(self.num_steps, self.num_epochs)
        loss, gradient = self._loss_gradient(i)
        self.losses.append((loss, self.example_weights[i]))
        self.objectives.append(self.l2 / 2 * np.sum(self.weights**2) + self.l1 * np.sum(np.abs(self.weights)))
        step = size * self.example_weights[i] * gradient
        self.weights = max(0.0, 1 - size * self.l2) * self.weights - np.outer(step, self.inputs[i])
        self._penalise(size, self.inputs[i] != 0)
        if self.fit_intercept:
            self.intercepts = self.intercepts - step
        self.num_steps += 1
        if self.num_steps >= self.average:
            self.averaged.append((self.weights, self.intercepts))

    def _penalise(self, size: float, is_present: Array) -> None:
        """The L1 penalty by Tsuruoka, Tsujii and Ananiadou (2009), on the features that the example has.

        `due` is the penalty that every weight should have had by now, `had` what it had. A weight moves towards zero
        by what it still owes, and no further than to zero.
        """
        self.due += size * self.l1
        owed = np.where(self.weights > 0, self.due + self.had, self.due - self.had)
        moved = np.sign(self.weights) * np.maximum(0.0, np.abs(self.weights) - owed)
        after = np.where(is_present, moved, self.weights)
        self.had = self.had + (after - self.weights)
        self.weights = after

    def mean_weights(self) -> tuple[Array, Array]:
        """The average of weights and intercepts after each of the steps that count."""
        weights, intercepts = zip(*self.averaged, strict=True)
        return np.mean(weights, axis=0), np.mean(intercepts, axis=0)

    def train_epoch(self) -> float:
        """One epoch; the mean objective seen just before its updates."""
        self.losses, self.objectives = [], []
        is_ordered = self.num_epochs >= self.start_epoch
        if isinstance(self.ordering, FlipFlop) and self.num_epochs % 2 == 1:
            self._train_on(self.sequence[::-1])
        elif not is_ordered:
            self._train_on(self._shuffled(self.num_epochs))
        elif self.batch_size is None:
            self._train_on(self._order(np.arange(len(self.inputs)))[: self._num_kept(len(self.inputs))])
        else:
            self._train_in_batches(self.batch_size)
        self.num_epochs += 1
        losses, weights = np.array(self.losses).T
        return float(np.average(losses, weights=weights) + np.mean(self.objectives))

    def _loss_gradient(self, i: int) -> tuple[float, Array]:
        return self.loss(self.weights @ self.inputs[i] + self.intercepts, self.targets[i])

    def _train_on(self, sequence: Array) -> None:
        self.sequence = np.array(sequence)
        for i in sequence:
            self.update(i)

    def _train_in_batches(self, size: int) -> None:
        inner = self._inner()
        noise_epoch = 0 if isinstance(inner, ShuffledOnce) else self.num_epochs
        order = np.arange(len(self.inputs)) if isinstance(inner, Sequential) else self._shuffled(noise_epoch)
        generator = epoch_generator(self.key, self.num_epochs)
        parts = []
        for begin in range(0, len(order), size):
            batch = order[begin : begin + size]
            scores = np.array([self.score(i) for i in batch])
            hardest = np.sort(np.argsort(-scores, kind="stable")[: self._num_kept(len(batch))])
            parts.append(self._order(batch[hardest], generator, in_batch=True))
            self._train_on(parts[-1])
        self.sequence = np.concatenate(parts)

    def _order(self, examples: Array, generator: torch.Generator | None = None, *, in_batch: bool = False) -> Array:
        """These examples in the rule's order; a batch is in random order already."""
        inner = self._inner()
        if isinstance(inner, Shuffled | ShuffledOnce):
            noise_epoch = 0 if isinstance(inner, ShuffledOnce) else self.num_epochs
            return examples if in_batch else self._shuffled(noise_epoch)
        generator = epoch_generator(self.key, self.num_epochs) if generator is None else generator
        scores = torch.tensor([self.score(i) for i in examples], dtype=torch.float64)
        order: Array = examples[inner(scores, epoch=self.num_epochs, generator=generator).numpy()]
        return order

    def _inner(self) -> Ordering:
        return self.ordering.inner if isinstance(self.ordering, FlipFlop) else self.ordering

    def _shuffled(self, epoch: int) -> Array:
        return shuffled(len(self.inputs), self.key, epoch)

    def _num_kept(self, size: int) -> int:
        return part_of(self.keep, size)

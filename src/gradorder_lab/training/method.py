"""A method of training: the parts of the library that a training loop uses it by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import gradorder as go
from gradorder.losses import Losses
from gradorder.scores import Score
from gradorder.selection import Selection


@dataclass(frozen=True, eq=False)
class Strategy:
    """Which examples are trained on, in what order, with what weights.

    Args:
        sampler: which examples, in what order.
        score: of all examples, before each epoch.
        remembers: the losses of each step are the scores of the next epoch.
        rescores_skipped: before the next epoch, the losses of the examples that an epoch skipped are computed, too.
        weighted: the weights of the sampler, or of the selection, count.
        gradients: the ordering learns from each step's gradients of the last layer.
        select: selects part of each batch.
        top: which losses of a batch count.
        rate_factor: epoch -> factor of the learning rate; None for 1.
        runs_by_progress: the sampler decides when the run ends, and the learning rate follows its progress.
    """

    sampler: go.OrderedSampler
    score: Score | None = None
    remembers: bool = False
    rescores_skipped: bool = False
    weighted: bool = False
    gradients: bool = False
    select: Selection | None = None
    top: go.TopLosses | None = None
    rate_factor: Callable[[int], float] | None = None
    runs_by_progress: bool = False

    def __post_init__(self) -> None:
        if self.rescores_skipped and not self.remembers:
            raise ValueError("rescores_skipped needs remembers: the other losses are those of the training steps")

    @property
    def needs_losses(self) -> bool:
        """Whether the loop computes a loss for each example; plain training does not pay for them."""
        return self.remembers or self.weighted or self.top is not None


@dataclass(frozen=True)
class Circumstances:
    """What a method is built for.

    Args:
        labels: of the training set.
        batch_size: of one training step.
        epochs: of plain training.
        budget: share of plain training's cost that the method may spend.
        seed: of the order.
        losses: of the user's own; None for cross-entropy.
    """

    labels: torch.Tensor
    batch_size: int
    epochs: int
    budget: float
    seed: int
    losses: Losses | None = None

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes."""
        return self.losses is None and self.labels.ndim == 1

    @property
    def num_classes(self) -> int:
        """The number of classes in the training set; 0 where labels are no classes."""
        return len(self.labels.unique()) if self.has_classes else 0

    def sampler(
        self,
        ordering: go.Ordering,
        *,
        batch_size: int | None = None,
        balanced: bool = False,
        **settings: Any,  # noqa: ANN401 - layout and keep, as the sampler takes them
    ) -> go.OrderedSampler:
        """A sampler of the training set; balanced: with stratified batches."""
        size, labels = batch_size or self.batch_size, self.labels if balanced else None
        return go.OrderedSampler(len(self.labels), size, ordering=ordering, labels=labels, seed=self.seed, **settings)


@dataclass(frozen=True)
class Method:
    """A method by its parts.

    Args:
        build: its parts.
        epoch_cost: of one epoch, in epochs of plain training: it decides how many epochs a budget buys. None: the
            method itself fits its epochs to the budget.
        needs_classes: it stratifies batches or looks at logits: not for losses of the user's own, nor for text.
        remark: a reservation that belongs beside its name wherever its results are shown.
        claim: the saving that its paper claims.
    """

    build: Callable[[Circumstances], Strategy]
    epoch_cost: float | None = 1.0
    needs_classes: bool = False
    remark: str = ""
    claim: str = ""

    def length(self, epochs: int, budget: float) -> float:
        """The epochs, whole or not, that cost `budget` times as much as `epochs` of plain training."""
        if self.epoch_cost is None:
            return float(epochs)
        return round(budget * epochs / self.epoch_cost, 9)  # 7 where the product is 7.000000000000001

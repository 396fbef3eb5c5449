"""Scores -> the plan of an epoch: the order, how much of it is kept, and how it is laid out in batches."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gradorder import checks
from gradorder.layouts import (
    LAYOUTS,
    Classes,
    Indices,
    Layout,
    arranged,
    kept_part,
    num_kept,
    reversed_arrangement,
    shuffled,
)
from gradorder.orderings import Made, Ordering, Shuffled
from gradorder.plan import EpochPlan
from gradorder.seeding import LAYOUT, epoch_generator

Keep = float | Callable[[int], float]
"""The fraction of an ordered epoch to train on, or a function from epoch to fraction."""


@dataclass(frozen=True, eq=False)
class EpochPlanner:
    """The rules by which one process of a run plans its epochs; a pure function of epoch and scores."""

    num_examples: int
    batch_size: int
    ordering: Ordering
    classes: Classes | None
    layout: Layout
    keep: Keep
    start_epoch: int
    seed: int
    drop_last: bool
    num_replicas: int
    rank: int

    def __post_init__(self) -> None:
        if not isinstance(self.ordering, Ordering):
            raise TypeError(f"ordering must be an Ordering such as Descending(), got {self.ordering!r}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(map(repr, LAYOUTS))}, got {self.layout!r}")
        if self.layout != "contiguous" and not self.ordering.needs_scores:
            raise ValueError(f"layout={self.layout!r} needs an ordering by scores, got {self.ordering}")
        self._num_left(self.num_examples, 0)
        self._num_left(int(self._num_kept(self.start_epoch).sum()), self.start_epoch)
        if self.ordering.with_replacement and (self.classes is not None or self.keep != 1):
            raise ValueError(f"labels and keep must not be given with {self.ordering}, which draws with replacement")
        if self.ordering.learns and (self.classes is not None or self.keep != 1 or self.num_replicas > 1):
            raise ValueError(
                f"labels, keep and several processes must not be given with {self.ordering}, which learns its order: "
                f"got labels: {self.classes is not None}, keep={self.keep}, num_replicas={self.num_replicas}"
            )
        if self.ordering.prunes and self.keep != 1:
            raise ValueError(f"keep must not be given with {self.ordering}, which decides by itself what to leave out")
        if self.ordering.prunes and self.num_replicas > 1 and not self.drop_last:
            raise ValueError(
                f"drop_last must be True with {self.ordering} on num_replicas={self.num_replicas}, got False: some "
                "epoch would end in a batch with fewer examples than processes"
            )

    def num_steps(self, epoch: int) -> int:
        """The training steps of an epoch, scores provided."""
        is_complete = not self.is_ordered(epoch)
        if self.ordering.prunes and not is_complete:
            raise ValueError(
                f"the steps of epoch {epoch} cannot be known before set_epoch({epoch}): {self.ordering} decides then "
                "what to leave out. Ask for planned epochs only, and let a step-size schedule count epochs"
            )
        num_planned = self.num_examples if is_complete else int(self._num_kept(epoch).sum())
        return -(-self._num_left(num_planned, epoch) // self.batch_size)

    def is_ordered(self, epoch: int) -> bool:
        """Whether the ordering has begun; before it, epochs are random."""
        return epoch >= self.start_epoch

    def plan(self, epoch: int, scores: torch.Tensor | None, learned: torch.Tensor | None = None) -> EpochPlan:
        """The plan of an epoch; random and complete where it needs scores and there are none.

        `learned` is the order to take in place of the ordering's own.
        """
        if learned is not None and self.is_ordered(epoch):
            return self.planned(epoch, torch.from_numpy(self._checked(learned)))
        is_ordered = self.is_ordered(epoch) and (scores is not None or not self.ordering.needs_scores)
        sequence, weights = self._ordered(epoch, scores) if is_ordered else (self._random(epoch), None)
        return self.planned(epoch, torch.from_numpy(np.ascontiguousarray(sequence)), weights)

    def planned(self, epoch: int, sequence: torch.Tensor, weights: torch.Tensor | None = None) -> EpochPlan:
        """This process's part of an epoch with the given global sequence, and weights beside it."""
        num_left = self._num_left(len(sequence), epoch)
        left = None if weights is None else weights[:num_left]
        return EpochPlan(epoch, sequence[:num_left], self.batch_size, self.num_replicas, self.rank, left)

    def _ordered(self, epoch: int, scores: torch.Tensor | None) -> tuple[Indices, torch.Tensor | None]:
        given = self.ordering(
            scores,
            epoch=epoch,
            generator=self._order_generator(epoch),
            num_examples=self.num_examples,
            classes=self._class_numbers(),
        )
        order = self._checked(given)
        kept = kept_part(order[::-1] if self.ordering.reverses(epoch) else order, self._num_kept(epoch), self.classes)
        weights = self._weights(epoch, scores, kept) if self.ordering.is_weighted else None
        if weights is None:
            return self._laid_out(epoch, kept, self.classes), None
        places = self._laid_out(
            epoch, np.arange(len(kept)), None if self.classes is None else self.classes.of_part(kept)
        )
        return kept[places], torch.from_numpy(weights[places])

    def _class_numbers(self) -> torch.Tensor | None:
        return None if self.classes is None else torch.from_numpy(self.classes.ids)

    def _order_generator(self, epoch: int) -> torch.Generator:
        return epoch_generator(self.seed, self.ordering.noise_epoch(epoch))

    def _laid_out(self, epoch: int, kept: Indices, classes: Classes | None) -> Indices:
        if self.layout == "shuffled":
            kept = shuffled(kept, epoch_generator(self.seed, self.ordering.noise_epoch(epoch), LAYOUT))
        arrange = reversed_arrangement if self.ordering.reverses(epoch) else arranged
        return arrange(kept, self.batch_size, layout=self.layout, classes=classes)

    def _weights(self, epoch: int, scores: torch.Tensor | None, kept: Indices) -> npt.NDArray[np.float32] | None:
        """An ordering may be the user's own: its weights are checked too."""
        made = Made(scores, epoch, self._order_generator(epoch), self.num_examples, self._class_numbers())
        given = self.ordering.weights(torch.from_numpy(np.ascontiguousarray(kept)), made)
        if given is None:
            return None
        rule = f"{self.ordering} must give one weight for each of {len(kept)} kept examples"
        if tuple(given.shape) != (len(kept),):
            raise ValueError(f"{rule}, got shape {tuple(given.shape)}")
        weights: npt.NDArray[np.float32] = given.detach().cpu().float().numpy()
        if not np.isfinite(weights).all() or weights.min() < 0:
            raise ValueError(f"{rule}, finite and not negative, got from {weights.min()} to {weights.max()}")
        return weights

    def _random(self, epoch: int) -> Indices:
        """Before the start, or before there are scores; an ordering that replays epochs replays these too."""
        source = epoch if epoch < self.start_epoch else self.ordering.scores_epoch(epoch)
        generator = epoch_generator(self.seed, source)
        order = Shuffled()(None, epoch=source, generator=generator, num_examples=self.num_examples)
        arrange = arranged if source == epoch else reversed_arrangement
        return arrange(order.numpy(), self.batch_size, classes=self.classes)

    def _checked(self, order: torch.Tensor) -> Indices:
        """An ordering may be the user's own: what it gives is checked before anything is built on it."""
        what = "some of" if self.ordering.prunes else "a permutation of"
        rule = f"{self.ordering} must give {what} range({self.num_examples})"
        has_size = 0 < len(order) <= self.num_examples if self.ordering.prunes else len(order) == self.num_examples
        if order.dtype != torch.int64 or order.ndim != 1 or not has_size:
            raise ValueError(f"{rule}, got shape {tuple(order.shape)} of {order.dtype}")
        indices = order.cpu().numpy()
        if indices.min() < 0 or indices.max() >= self.num_examples:
            raise ValueError(f"{rule}, got indices from {indices.min()} to {indices.max()}")
        if not self.ordering.with_replacement:
            seen = np.zeros(self.num_examples, dtype=bool)
            seen[indices] = True
            if self.ordering.prunes and seen.sum() < len(indices):
                raise ValueError(f"{rule}, got an example twice")
            if not self.ordering.prunes and not seen.all():
                raise ValueError(f"{rule}, got one without example {int(seen.argmin())}")
        return indices

    def _num_kept(self, epoch: int) -> Indices:
        fraction = self.keep(epoch) if callable(self.keep) else self.keep
        name = f"keep({epoch})" if callable(self.keep) else "keep"
        counts = np.array([self.num_examples]) if self.classes is None else self.classes.counts
        if checks.fraction(name, fraction) < self.ordering.least_keep:
            raise ValueError(f"{name} must be at least {self.ordering.least_keep} with {self.ordering}, got {fraction}")
        return num_kept(fraction, counts)

    def _num_left(self, num_planned: int, epoch: int) -> int:
        """The examples that are left after `drop_last`, if they can be trained on at all."""
        tail = num_planned % self.batch_size
        if not self.drop_last:
            if 0 < tail < self.num_replicas:
                raise ValueError(
                    f"the last batch of epoch {epoch} has {tail} examples for {self.num_replicas} processes: "
                    "every process needs one, so use drop_last=True or another batch_size"
                )
            return num_planned
        if num_planned == tail:
            raise ValueError(
                f"batch_size must be at most the {num_planned} examples of epoch {epoch} with drop_last=True, "
                f"got {self.batch_size}: there would be no batch"
            )
        return num_planned - tail

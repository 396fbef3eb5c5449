"""Scores -> the plan of an epoch: the order, how much of it is kept, and how it is laid out in batches."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from gradorder import checks
from gradorder.orderings import Order, Ordering, Request, Shuffled
from gradorder.orderings.ordering import checked_order
from gradorder.sampler.labels import Classes
from gradorder.sampler.layout import LAYOUTS, Layout, lay_out
from gradorder.sampler.plan import EpochPlan
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
        self.fraction(self.start_epoch)
        self._num_left(self.num_examples, 0)
        num_kept = self.ordering.num_kept(self._request(self.start_epoch))
        if num_kept is not None:
            self._num_left(num_kept, self.start_epoch)

    def __str__(self) -> str:
        """What it plans, in words."""
        processes = f" over {self.num_replicas} processes" if self.num_replicas > 1 else ""
        classes = self.classes
        parts = [
            f"{self.num_examples} examples",
            f"batches of {self.batch_size}{processes}",
            f"ordering={self.ordering} from epoch {self.start_epoch} on",
            f"layout={self.layout!r}",
            "keep by epoch" if callable(self.keep) else f"keep={self.keep:g}",
            "no labels" if classes is None else f"{len(classes.counts)} balanced classes from {classes.source}",
            f"seed={self.seed}",
            *(["a last batch that is not full is left out"] if self.drop_last else []),
        ]
        return ", ".join(parts)

    def known_steps(self, epoch: int) -> int | None:
        """The training steps of an epoch, scores provided; None where only its plan can tell."""
        num_kept = self.ordering.num_kept(self._request(epoch)) if self.is_ordered(epoch) else self.num_examples
        return None if num_kept is None else -(-self._num_left(num_kept, epoch) // self.batch_size)

    def num_steps(self, epoch: int) -> int:
        """The training steps of an epoch, scores provided."""
        steps = self.known_steps(epoch)
        if steps is None:
            raise ValueError(
                f"the steps of epoch {epoch} cannot be known before set_epoch({epoch}): {self.ordering} decides then "
                "what to leave out. Ask for planned epochs only, and let step sizes follow sampler.progress, as "
                "go.ProgressLR(optimizer, sampler) does"
            )
        return steps

    def is_ordered(self, epoch: int) -> bool:
        """Whether the ordering has begun; before it, epochs are random."""
        return epoch >= self.start_epoch

    def needs_scores(self, epoch: int) -> bool:
        """Whether this epoch is ordered by scores."""
        return self.is_ordered(epoch) and self.ordering.needs_scores

    def replayed_epoch(self, epoch: int) -> int | None:
        """The earlier epoch by whose scores this one is ordered, if it is not by its own."""
        source = self.ordering.source_epoch(epoch)
        return source if self.needs_scores(epoch) and self.start_epoch <= source < epoch else None

    def fraction(self, epoch: int) -> float:
        """The part of an ordered epoch that is kept."""
        if callable(self.keep):
            return checks.fraction(f"keep({epoch})", self.keep(epoch))
        return checks.fraction("keep", self.keep)

    def plan(self, epoch: int, scores: torch.Tensor | None, learned: torch.Tensor | None = None) -> EpochPlan:
        """The plan of an epoch; random and complete where it needs scores and there are none.

        Args:
            epoch: 0, 1, 2, ...
            scores: one number per example, NaN where an example was never scored.
            learned: the order that the ordering's learner has learned.
        """
        if not self.is_ordered(epoch):
            request = replace(self._request(epoch), generator=epoch_generator(self.seed, epoch), keep=None)
            return self._lay_out(epoch, Shuffled().order(request), "contiguous")
        is_scored = self.ordering.needs_scores
        finite, known = (None, None) if scores is None or not is_scored else _fill_in(scores)
        request = self._request(epoch, generator=self._generator(epoch), scores=finite, known=known, learned=learned)
        layout = "contiguous" if is_scored and finite is None else self.layout
        order = checked_order(self.ordering, request)
        return self._lay_out(epoch, self._shared_out(order) if self.known_steps(epoch) is None else order, layout)

    def _shared_out(self, order: Order) -> Order:
        """An order whose length nobody could choose, less the last few, where they are fewer than the processes."""
        tail = len(order.indices) % self.batch_size
        if self.drop_last or not 0 < tail < self.num_replicas:
            return order
        kept = slice(0, len(order.indices) - tail)
        weights = None if order.weights is None else order.weights[kept]
        return replace(order, indices=order.indices[kept], weights=weights)

    def plan_of(self, epoch: int, sequence: torch.Tensor, weights: torch.Tensor | None = None) -> EpochPlan:
        """This process's part of an epoch with the given global sequence, and weights beside it."""
        num_left = self._num_left(len(sequence), epoch)
        left = None if weights is None else weights[:num_left]
        return EpochPlan(epoch, sequence[:num_left], self.batch_size, self.num_replicas, self.rank, left)

    def _request(self, epoch: int, generator: torch.Generator | None = None, **known: torch.Tensor | None) -> Request:
        """What is asked for in an epoch; without a generator and scores, to see how much that will be."""
        classes = self.classes
        return Request(
            epoch,
            self.num_examples,
            generator or torch.Generator(),
            classes=None if classes is None else classes.numbers,
            class_counts=None if classes is None else classes.counts,
            keep=None if self.keep == 1 else self.fraction(epoch),
            num_replicas=self.num_replicas,
            **known,
        )

    def _generator(self, epoch: int, stream: int | None = None) -> torch.Generator:
        return epoch_generator(self.seed, self.ordering.source_epoch(epoch), stream)

    def _lay_out(self, epoch: int, order: Order, layout: Layout) -> EpochPlan:
        indices = order.indices.cpu().numpy()
        # Weights travel with their examples: where there are some, it is places that are laid out.
        items = indices if order.weights is None else np.arange(len(indices))
        classes = None if self.classes is None else self.classes.numbers.numpy().take(indices)
        if layout == "shuffled":
            places = torch.randperm(len(items), generator=self._generator(epoch, LAYOUT)).numpy()
            items, classes = items[places], None if classes is None else classes[places]
        laid = lay_out(items, self.batch_size, layout=layout, classes=classes, backwards=order.backwards)
        laid = np.ascontiguousarray(laid)
        if order.weights is None:
            return self.plan_of(epoch, torch.from_numpy(laid))
        weights = order.weights.detach().cpu().float()
        return self.plan_of(epoch, torch.from_numpy(indices[laid]), weights[torch.from_numpy(laid)])

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


def _fill_in(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A finite score for every example, the largest where there was none; and which were known, None if all were."""
    if checks.are_finite(scores):
        return scores, None
    known = ~scores.isnan()
    return scores.masked_fill(~known, float(scores[known].max())), known

"""Scores -> the plan of an epoch: the order, the part of it that is kept, and its batches."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gradorder import checks
from gradorder.errors import UnknownStepsError
from gradorder.orderings import Order, Ordering, Request, Shuffled
from gradorder.orderings.ordering import OrderingRun, epoch_generator
from gradorder.sampler.labels import Classes
from gradorder.sampler.stratified import LAYOUTS, Layout, lay_out

Keep = float | Callable[[int], float]
"""The fraction of an ordered epoch to train on, or a function from epoch to fraction."""

Indices = npt.NDArray[Any]
"""A vector of integers."""

_LAYOUT_STREAM = 1
"""Separates the random numbers of the layout from those of the order."""

_FILLING_STREAM = 3
"""Those of the examples that fill the last batch of a pruned epoch."""

_INDICES_AT_ONCE = 2**16  # as Python ints; a whole large epoch at once would take 32 bytes for each


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """The global sequence of an epoch, and one rank's part of it.

    Batch b is `sequence[b * batch_size : (b + 1) * batch_size]`, the same on every rank; a rank takes its slice
    as `torch.tensor_split` cuts it. `weights`, if any, are aligned with the sequence.
    """

    epoch: int
    sequence: torch.Tensor
    batch_size: int
    num_replicas: int = 1
    rank: int = 0
    weights: torch.Tensor | None = None
    repeats: bool = False
    """Whether an example may occur more than once."""

    @cached_property
    def fingerprint(self) -> int:
        """A hash of sequence and weights, which the ranks compare."""
        digest = hashlib.blake2b(self._numbers, digest_size=7)
        if self.weights is not None:
            digest.update(self.weights.numpy())
        return int.from_bytes(digest.digest())

    @property
    def num_batches(self) -> int:
        """Global batches of the epoch."""
        return -(-len(self._numbers) // self.batch_size)

    @property
    def rank_batch_size(self) -> int:
        """Examples of a full batch for this rank."""
        return self.batch_size // self.num_replicas

    @property
    def num_examples_of_rank(self) -> int:
        """Examples of the epoch for this rank."""
        num_full, tail = divmod(len(self.sequence), self.batch_size)
        first, last = self._slice_of(tail)
        return num_full * self.rank_batch_size + last - first

    def batch_length(self, batch: int) -> int:
        """Examples in global batch number `batch`."""
        return min(self.batch_size, len(self._numbers) - batch * self.batch_size)

    @cached_property
    def _numbers(self) -> npt.NDArray[np.int64]:
        """The sequence for numpy, which slices in a tenth of torch's time."""
        return self.sequence.numpy()

    def examples(self, batch: int) -> npt.NDArray[np.int64]:
        """This rank's examples of batch number `batch`."""
        return self._numbers[self._places(batch)]

    def batch_weights(self, batch: int) -> torch.Tensor:
        """The weights of this rank's examples of batch number `batch`, as a copy."""
        places = self._places(batch)
        return torch.ones(places.stop - places.start) if self.weights is None else self.weights[places].clone()

    def loss_scale(self, batch: int) -> float:
        """This rank's share of a batch, divided by an equal share."""
        return len(self.examples(batch)) * self.num_replicas / self.batch_length(batch)

    def batches(self, start: int) -> Iterator[list[int]]:
        """This rank's examples batch by batch, from batch number `start` on."""
        size = self.batch_size
        stride = size * max(1, _INDICES_AT_ONCE // size)
        for begin in range(start * size, len(self._numbers), stride):
            several = self._numbers[begin : begin + stride].tolist()
            for position in range(0, len(several), size):
                batch = several[position : position + size]
                yield batch if self.num_replicas == 1 else batch[slice(*self._slice_of(len(batch)))]

    def _places(self, batch: int) -> slice:
        start = batch * self.batch_size
        length = self.batch_length(batch)
        if self.num_replicas == 1:
            return slice(start, start + length)
        first, last = self._slice_of(length)
        return slice(start + first, start + last)

    def _slice_of(self, length: int) -> tuple[int, int]:
        share, longer = divmod(length, self.num_replicas)
        first = self.rank * share + min(self.rank, longer)
        return first, first + share + (self.rank < longer)


@dataclass(frozen=True, eq=False)
class EpochPlanner:
    """The settings by which one rank plans its epochs; planning is a pure function of epoch, scores and rule."""

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
    epochs: int | None = None

    def __post_init__(self) -> None:
        if self.epochs is not None:
            checks.integer("epochs", self.epochs, minimum=1)
        if not isinstance(self.ordering, Ordering):
            raise TypeError(f"ordering must be an Ordering such as Descending(), got {self.ordering!r}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(map(repr, LAYOUTS))}, got {self.layout!r}")
        if self.layout != "contiguous" and not self.ordering.needs_scores:
            raise ValueError(f"layout={self.layout!r} needs an ordering by scores, got {self.ordering}")
        self._num_used(self.num_examples, 0)
        for epoch in self._epochs_to_check():
            self.ordering.start(self._request(epoch))
            self.known_steps(epoch)  # raises if that epoch cannot be trained on

    def __str__(self) -> str:
        processes = f" over {self.num_replicas} processes" if self.num_replicas > 1 else ""
        classes = self.classes
        parts = [
            f"{self.num_examples} examples",
            f"batches of {self.batch_size}{processes}",
            f"ordering={self.ordering} from epoch {self.start_epoch} on",
            f"layout={self.layout!r}",
            "keep by epoch" if callable(self.keep) else f"keep={self.keep:g}",
            "no labels" if classes is None else f"stratified by {len(classes.counts)} classes of {classes.source}",
            f"seed={self.seed}",
            *(["drop_last"] if self.drop_last else []),
        ]
        return ", ".join(parts)

    def _epochs_to_check(self) -> Iterator[int]:
        """The first epoch of every fraction that the run keeps, so that no later epoch fails."""
        last = self.epochs if callable(self.keep) and self.epochs is not None else 0
        checked: set[float] = set()
        for epoch in range(self.start_epoch, max(last, self.start_epoch + 1)):
            fraction = self.fraction(epoch)
            if fraction not in checked:
                checked.add(fraction)
                yield epoch

    def new_run(self) -> OrderingRun:
        """Start the ordering for a run with these settings.

        Raises:
            ValueError: the ordering cannot serve them.
        """
        return self.ordering.start(self._request(self.start_epoch))

    @cached_property
    def num_complete(self) -> int:
        """The number of examples of a complete epoch."""
        return self._num_used(self.num_examples, 0)

    @cached_property
    def _prunes(self) -> bool:
        return self.new_run().prunes

    def known_steps(self, epoch: int) -> int | None:
        """The training steps of an epoch with scores; None if only its plan can tell."""
        if not self.is_ordered(epoch):
            num_kept = self.num_examples
        elif self._prunes:
            return None
        else:
            num_kept = self._request(epoch).num_kept
        return -(-self._num_used(num_kept, epoch) // self.batch_size)

    def num_steps(self, epoch: int) -> int:
        """The training steps of an epoch with scores."""
        steps = self.known_steps(epoch)
        if steps is None:
            raise UnknownStepsError(
                f"the steps of epoch {epoch} are not known before set_epoch({epoch}): {self.ordering} decides then how "
                "many examples it visits. Ask for planned epochs only, and let the learning rate follow "
                "sampler.progress, as go.ProgressLR(optimizer, sampler) does"
            )
        return steps

    def is_ordered(self, epoch: int) -> bool:
        """Whether the ordering has begun; epochs before it are random."""
        return epoch >= self.start_epoch

    def fraction(self, epoch: int) -> float:
        """The part of an ordered epoch that is kept."""
        if callable(self.keep):
            return checks.fraction(f"keep({epoch})", self.keep(epoch))
        return checks.fraction("keep", self.keep)

    def plan(self, epoch: int, scores: torch.Tensor | None, run: OrderingRun) -> EpochPlan:
        """Plan an epoch; it is random and complete if it needs scores and there are none.

        Args:
            epoch: 0, 1, 2, ...
            scores: one number per example, NaN for an example that was never scored.
            run: the ordering at work; a rule that carries something from epoch to epoch changes it.
        """
        if not self.is_ordered(epoch):
            request = replace(self._request(epoch), generator=epoch_generator(self.seed, epoch), keep=None)
            return self._in_batches(epoch, Shuffled().order(request), "contiguous")
        finite, known = (None, None) if scores is None or not self.ordering.needs_scores else _fill_in(scores)
        request = self._request(epoch, generator=epoch_generator(self.seed, epoch), scores=finite, known=known)
        order = run.order(request)
        if run.prunes:
            order = self._filled(order, request)
        return self._in_batches(epoch, order, "contiguous" if order.is_unscored else self.layout)

    def _filled(self, order: Order, request: Request) -> Order:
        """Add skipped examples to a last batch that could not be trained on; with weights, they weigh nothing."""
        num_missing = request.trainable(len(order.indices)) - len(order.indices)
        if num_missing <= 0:
            return order
        is_skipped = torch.ones(self.num_examples, dtype=torch.bool, device=order.indices.device)
        is_skipped[order.indices] = False
        skipped = is_skipped.nonzero().flatten()
        generator = epoch_generator(self.seed, request.epoch, _FILLING_STREAM)
        chosen = skipped[torch.randperm(len(skipped), generator=generator)[:num_missing].to(skipped.device)]
        weights = None if order.weights is None else torch.cat([order.weights, order.weights.new_zeros(len(chosen))])
        return replace(order, indices=torch.cat([order.indices, chosen]), weights=weights)

    def shuffled(self, epoch: int, is_visited: torch.Tensor) -> torch.Tensor:
        """The sequence of these examples in an epoch that visits them in the order of random reshuffling."""
        order = torch.randperm(self.num_examples, generator=epoch_generator(self.seed, epoch))
        visited = order.masked_select(is_visited.index_select(0, order))
        classes = None if self.classes is None else self.classes.numbers.numpy().take(visited.numpy())
        return torch.from_numpy(lay_out(visited.numpy(), self.batch_size, classes=classes))

    def resumed(self, epoch: int, order: Order) -> EpochPlan:
        """This rank's part of an epoch from a saved state, whose run may have had fewer processes."""
        if self._prunes:
            order = self._filled(order, self._request(epoch))
        return self.plan_of(epoch, order.indices, order.weights, repeats=order.repeats)

    def plan_of(
        self, epoch: int, sequence: torch.Tensor, weights: torch.Tensor | None = None, *, repeats: bool = False
    ) -> EpochPlan:
        """This rank's part of an epoch with the given global sequence and weights."""
        num_used = self._num_used(len(sequence), epoch)
        weights = None if weights is None else weights[:num_used]
        sequence = sequence[:num_used]
        return EpochPlan(epoch, sequence, self.batch_size, self.num_replicas, self.rank, weights, repeats)

    def _request(
        self,
        epoch: int,
        generator: torch.Generator | None = None,
        scores: torch.Tensor | None = None,
        known: torch.Tensor | None = None,
    ) -> Request:
        classes = self.classes
        return Request(
            epoch,
            self.num_examples,
            generator or torch.Generator(),
            scores=scores,
            known=known,
            classes=None if classes is None else classes.numbers,
            class_counts=None if classes is None else classes.counts,
            keep=None if self.keep == 1 else self.fraction(epoch),
            num_replicas=self.num_replicas,
            seed=self.seed,
            batch_size=self.batch_size,
            drop_last=self.drop_last,
        )

    def _in_batches(self, epoch: int, order: Order, layout: Layout) -> EpochPlan:
        # With drop_last the end of the order is dropped, whatever the layout: examples whose turn it is come first.
        indices = order.indices.cpu().numpy()[: self._num_used(len(order.indices), epoch)]
        # Weights travel with their examples: if there are some, the layout arranges positions instead of examples.
        items = indices if order.weights is None else np.arange(len(indices))
        classes = None if self.classes is None else self.classes.numbers.numpy().take(indices)
        if layout == "shuffled":
            source = epoch if order.epoch is None else order.epoch
            generator = epoch_generator(self.seed, source, _LAYOUT_STREAM)
            places = torch.randperm(len(items), generator=generator).numpy()
            items, classes = items[places], None if classes is None else classes[places]
        laid = lay_out(items, self.batch_size, layout=layout, classes=classes, backwards=order.backwards)
        if order.weights is None:
            return self.plan_of(epoch, torch.from_numpy(laid), repeats=order.repeats)
        weights = order.weights.detach().cpu().float()[torch.from_numpy(laid)]
        return self.plan_of(epoch, torch.from_numpy(indices[laid]), weights, repeats=order.repeats)

    def _num_used(self, num_planned: int, epoch: int) -> int:
        """The examples that remain after `drop_last`, if they can be trained on at all."""
        tail = num_planned % self.batch_size
        if not self.drop_last:
            if 0 < tail < self.num_replicas:
                raise ValueError(
                    f"the last batch of epoch {epoch} has {tail} examples for {self.num_replicas} processes, and every "
                    "process needs one: use drop_last=True or another batch_size"
                )
            return num_planned
        if num_planned == tail:
            raise ValueError(
                f"batch_size must be at most the {num_planned} examples of epoch {epoch} with drop_last=True, "
                f"got {self.batch_size}: there would be no batch"
            )
        return num_planned - tail


def _fill_in(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A finite score for every example, the largest for unknown ones; and which were known, None if all were."""
    if checks.are_finite(scores):
        return scores, None
    known = ~scores.isnan()
    return scores.masked_fill(~known, float(scores[known].max())), known

"""Revisiting: whatever an ordering prefers, every example comes back after a fixed number of epochs."""

from dataclasses import dataclass, replace
from typing import final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, OrderingRun, Request, Wrapping


@final
@dataclass(frozen=True)
class Revisiting(Wrapping):
    """The inner order, with one of `every` fixed parts of the examples moved to the front, another each epoch.

    Rule: with F_r = {i : place(i) mod every = r}, epoch e plays F_{e mod every} in the inner order, then the others
    in the inner order. `place` is a fixed random permutation of the examples, with labels sorted by class, so that a
    part holds 1/every of each class, rounded up or down.

    So with any keep >= 1/every, labels or not, each example is visited at least once in any `every` consecutive
    ordered epochs, and no remembered score gets older than that. A smaller keep is refused. `drop_last` may cut the
    visit off. Inside FlipFlop, `every` must be odd, and the promise is for 2 * every epochs, as pairs share a part.

    Weights of the inner ordering stay unbiased: what is at the front is sure to be kept and weighs kept / N, and the
    inner ordering weighs what was chosen among the rest. Where nothing was, no weight could be right, so it is refused:
    then each class (all examples, without labels) must keep more than ceil(n_c / every), or all.

    It helps where scores are remembered from training: what is never visited would keep its old score for ever.

    Helps, theory: remembered scores: none gets older than `every` epochs, so that an example that was easy once is
    looked at again.

    Hurts, theory: a part of each epoch, 1/`every`, is not chosen by score.

    Cost: one more permutation of N per epoch, with labels one more sort.

    Reference: none known to us; it is this library's own.

    Args:
        inner: the ordering of the examples in both parts.
        every: the number of parts, at least 2. A smaller number keeps scores younger and leaves less to be chosen by
            them: of half an epoch, 8 leave three quarters to the scores. 4 was tried, and was no better.
    """

    every: int = 8

    def __post_init__(self) -> None:
        checks.integer("every", self.every, minimum=2)
        super().__post_init__()

    def order(self, request: Request) -> Order:
        """The inner ordering's, to which the forced examples look as if they were never scored: those come first."""
        forced = self._forced(request)
        sure = forced if request.known is None else forced | ~request.known
        if not _fit(request, sure):  # the visit that was promised goes before the example that was never scored
            sure = forced
        order = self.inner.order(replace(request, known=~sure))
        if order.weights is not None:
            self._check_room(request)
        return order if request.known is None else _with_first(order, ~request.known)

    def start(self, request: Request) -> OrderingRun:
        """Start a run that keeps one part at least."""
        if request.keep is not None and request.keep < 1 / self.every:
            raise ValueError(f"keep must be at least {1 / self.every} with {self}, got {request.keep}")
        return super().start(request)

    def _forced(self, request: Request) -> torch.Tensor:
        """Which examples this epoch must visit."""
        size = request.num_examples
        # Always the same permutation: which examples are together has nothing to do with a run's seed.
        by_place = torch.randperm(size, generator=torch.Generator().manual_seed(size))
        if request.classes is not None:
            classes = request.classes.cpu()
            small = classes if classes.dtype == torch.uint8 else classes.long()  # sorts bytes eight times as fast
            by_place = by_place[torch.argsort(small[by_place], stable=True)]
        forced = torch.zeros(size, dtype=torch.bool)
        forced[by_place[request.epoch % self.every :: self.every]] = True
        return forced

    def _check_room(self, request: Request) -> None:
        """Every example must have a chance, in any epoch: the check does not depend on whose turn it is."""
        for number, (count, num_kept) in enumerate(zip(request.counts, request.kept_counts, strict=True)):
            most_forced = -(-count // self.every)
            if num_kept < count and num_kept <= most_forced:
                which = "all" if request.classes is None else f"class number {number}"
                raise ValueError(
                    f"keep must leave room beside the examples that {self} forces, to weight the others without bias: "
                    f"{which} with {count} examples keeps {num_kept}, and up to {most_forced} are forced"
                )


def _fit(request: Request, sure: torch.Tensor) -> bool:
    """Whether there is room in every class for the examples that are to be kept whatever their score."""
    num_sure = torch.bincount(request.classes_of(sure.nonzero().flatten()).long(), minlength=len(request.counts))
    return all(sure <= kept for sure, kept in zip(num_sure.tolist(), request.kept_counts, strict=True))


def _with_first(order: Order, is_first: torch.Tensor) -> Order:
    """The same, with some of the examples in front."""
    places = torch.argsort(is_first.to(order.indices.device)[order.indices].logical_not().byte(), stable=True)
    weights = None if order.weights is None else order.weights[places]
    return replace(order, indices=order.indices[places], weights=weights)

"""Revisiting: whatever an ordering prefers, every example comes back after a fixed number of epochs."""

from dataclasses import dataclass, replace
from typing import final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, OrderingRun, Request, Wrapping


@final
@dataclass(frozen=True)
class Revisiting(Wrapping):
    """The inner order, with one of `every` fixed parts of the examples moved to the front, another each epoch.

    Rule: with F_r = {i : place(i) mod every = r}, epoch e plays F_{e mod every} in the inner order, then the others
    in the inner order. `place` is a fixed random permutation of the examples, with labels sorted by class, so that a
    part holds 1/every of each class, rounded up or down. Inside FlipFlop the two epochs of a pair share a part, and
    there are fewer parts.

    So with any keep >= 1/every (inside FlipFlop: about twice that), labels or not, each example is visited at least
    once in any `every` consecutive ordered epochs, and no remembered score gets older than that. A smaller keep is
    refused. `drop_last` may drop the visit.

    Weights of the inner ordering stay unbiased: an example at the front is certain to be kept and weighs kept / N, and
    the inner ordering weighs the examples that it chose among the others.

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
        if isinstance(self.inner, Revisiting):
            raise ValueError(f"inner must not revisit examples by itself, got {self.inner}")  # noqa: TRY004
        if not _puts_unknown_first(self.inner):
            raise ValueError(f"inner must put examples first that were never scored, got {self.inner}")

    def order(self, request: Request) -> Order:
        """The inner ordering's, to which the forced examples look as if they were never scored: those come first."""
        forced = request.in_turn(self.every)
        sure = forced if request.known is None else forced | ~request.known
        if not _fit(request, sure):  # the visit that was promised goes before the example that was never scored
            sure = forced
        order = self.inner.order(replace(request, known=~sure))
        return order if request.known is None else _with_first(order, ~request.known)

    def start(self, request: Request) -> OrderingRun:
        """Start a run that keeps one part at least."""
        least = 1 / request.num_turns(self.every)
        if request.keep is not None and request.keep < least:
            raise ValueError(f"keep must be at least {least} with {self}, got {request.keep}")
        num_used = request.num_kept - (request.num_kept % (request.batch_size or 1) if request.drop_last else 0)
        num_forced = -(-request.num_examples // request.num_turns(self.every))
        if num_used < num_forced:
            raise ValueError(
                f"keep must leave room for the {num_forced} examples whose turn it is with {self}, got {num_used} "
                "examples in full batches. Use a larger keep, a smaller batch_size, or drop_last=False"
            )
        return super().start(request)


def _puts_unknown_first(rule: Ordering) -> bool:
    """Whether a rule visits examples that were never scored, and first: a forced example looks like one to it."""
    known = torch.ones(8, dtype=torch.bool)
    known[5] = False
    scores = torch.arange(1.0, 9.0) if rule.needs_scores else None
    order = rule.order(Request(1, 8, torch.Generator(), scores=scores, known=known))
    return int(order.indices[0]) == 5 and not order.repeats  # noqa: PLR2004 - the unknown one


def _fit(request: Request, sure: torch.Tensor) -> bool:
    """Whether there is room in every class for the examples that are to be kept whatever their score."""
    num_sure = torch.bincount(request.classes_of(sure.nonzero().flatten()).long(), minlength=len(request.counts))
    return all(sure <= kept for sure, kept in zip(num_sure.tolist(), request.kept_counts, strict=True))


def _with_first(order: Order, is_first: torch.Tensor) -> Order:
    """The same, with some of the examples in front."""
    places = torch.argsort(is_first.to(order.indices.device)[order.indices].logical_not().byte(), stable=True)
    weights = None if order.weights is None else order.weights[places]
    return replace(order, indices=order.indices[places], weights=weights)

"""Revisiting: visit every example at least once in a fixed number of epochs, in addition to an ordering's choice."""

from dataclasses import dataclass, replace
from typing import final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, OrderingRun, Request, Wrapping


@final
@dataclass(frozen=True)
class Revisiting(Wrapping):
    """Move one of `every` fixed parts of the examples to the front of the inner order, a different part each epoch.

    Rule: with F_r = {i : place(i) mod every = r}, epoch e visits F_{e mod every} in the inner order, then the
    others in the inner order. `place` is a fixed random permutation of the examples. With labels it is sorted by class,
    so that a part holds 1/every of each class, rounded up or down. Inside FlipFlop, the two epochs of a pair share a
    part, and there are fewer parts.

    With any keep >= 1/every (inside FlipFlop: about twice that), with or without labels, each example is visited at
    least once in any `every` consecutive ordered epochs, so no remembered score gets older than that. A smaller keep
    raises an error. `drop_last` may drop the visit.

    Weights of the inner ordering stay unbiased: an example at the front is certain to be kept and has the weight
    kept / N, and the inner ordering weights the examples that it chooses from the others.

    Needs: what the inner ordering needs.

    When: `keep` is below 1, and the scores are remembered from training.

    Helps, theory: scores remembered from training: no score gets older than `every` epochs. Without it, an example
    that is never visited keeps its old score forever.

    Hurts, theory: 1/`every` of the examples are not chosen by score in each epoch.

    Cost: one more permutation of N per epoch; with labels, one more sort.

    Reference: none known to us; it is this library's own.

    Args:
        inner: the ordering of the examples in both parts.
        every: the number of parts, at least 2. A smaller number keeps scores more recent, but fewer examples are chosen
            by score: with keep=0.5 and every=8, three quarters of them. 4 was tried and was not better.
    """

    every: int = 8

    def __post_init__(self) -> None:
        checks.integer("every", self.every, minimum=2)
        super().__post_init__()
        if isinstance(self.inner, Revisiting):
            raise ValueError(f"inner must not revisit examples itself, got {self.inner}")  # noqa: TRY004
        if not _puts_unknown_first(self.inner):
            raise ValueError(f"inner must put examples first that were never scored, got {self.inner}")

    def order(self, request: Request) -> Order:
        """Return the inner order, with the examples whose turn it is at the front."""
        # The inner ordering puts examples first that were never scored, so the examples in turn are passed as such.
        forced = request.in_turn(self.every)
        sure = forced if request.known is None else forced | ~request.known
        if not _fit(request, sure):  # the promised visits take precedence over examples that were never scored
            sure = forced
        order = self.inner.order(replace(request, known=~sure))
        return order if request.known is None else _with_first(order, ~request.known)

    def start(self, request: Request) -> OrderingRun:
        """Start a run, after checking that an epoch has room for a part."""
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
    """Whether a rule visits examples first that were never scored."""
    known = torch.ones(8, dtype=torch.bool)
    known[5] = False
    scores = torch.arange(1.0, 9.0) if rule.needs_scores else None
    order = rule.order(Request(1, 8, torch.Generator(), scores=scores, known=known))
    return int(order.indices[0]) == 5 and not order.repeats  # noqa: PLR2004 - the unknown one


def _fit(request: Request, sure: torch.Tensor) -> bool:
    """Whether every class has room for the examples that must be kept."""
    num_sure = torch.bincount(request.classes_of(sure.nonzero().flatten()).long(), minlength=len(request.counts))
    return all(sure <= kept for sure, kept in zip(num_sure.tolist(), request.kept_counts, strict=True))


def _with_first(order: Order, is_first: torch.Tensor) -> Order:
    """Move the marked examples to the front of an order."""
    places = torch.argsort(is_first.to(order.indices.device)[order.indices].logical_not().byte(), stable=True)
    weights = None if order.weights is None else order.weights[places]
    return replace(order, indices=order.indices[places], weights=weights)

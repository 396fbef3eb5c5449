"""Orderings as estimators take them: an object of the library, or its name where only a string will do."""

import torch

from gradorder.orderings import (
    Ascending,
    Descending,
    FlipFlop,
    Ordering,
    PlackettLuce,
    Request,
    Sequential,
    Shuffled,
    ShuffledOnce,
)
from gradorder.orderings.ordering import checked_order
from gradorder.sklearn import compiled

NAMED: dict[str, Ordering] = {
    "random": Shuffled(),
    "descending": Descending(),
    "ascending": Ascending(),
    "shuffle-once": ShuffledOnce(),
    "flip-flop": FlipFlop(Shuffled()),
    "plackett-luce": PlackettLuce(),
    "sequential": Sequential(),
}

_COMPILED: dict[type[Ordering], int] = {
    Shuffled: compiled.SHUFFLED,
    ShuffledOnce: compiled.SHUFFLED_ONCE,
    Sequential: compiled.SEQUENTIAL,
    Descending: compiled.DESCENDING,
    Ascending: compiled.ASCENDING,
}


def ordering_of(ordering: Ordering | str) -> tuple[Ordering, bool]:
    """The ordering of the even epochs, and whether the odd ones play them backwards."""
    given = NAMED[ordering] if isinstance(ordering, str) else ordering
    if not isinstance(given, FlipFlop):
        return given, False
    while isinstance(given, FlipFlop):  # the inner one is only ever asked about even epochs
        given = given.inner
    return given, True


def check(ordering: Ordering, num_examples: int, keep: float, start_epoch: int) -> None:
    """Refuse at once what could not be trained with: by a trial order, as a sampler would ask for it."""
    scores = torch.ones(num_examples) if ordering.needs_scores else None
    request = Request(start_epoch, num_examples, torch.Generator(), scores, keep=None if keep == 1 else keep)
    run = ordering.start(request)
    order = checked_order(ordering, request, ordering.order(request))
    if order.weights is not None:
        raise ValueError(
            f"ordering must give equal weights to the examples of an estimator, got {ordering}: use it with "
            "OrderedSampler"
        )
    # An estimator has no gradients to give; an ordering that learns from them says so here.
    run.checked_gradients("gradients", None, order.indices.numpy(), is_due=True)


def order_code(ordering: Ordering) -> int:
    """The compiled loop's number for this ordering; GIVEN_ORDER where it has none."""
    return _COMPILED.get(type(ordering), compiled.GIVEN_ORDER)

"""Orderings of the estimators: an object of the library or its name."""

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
    Undecided,
    Unlearned,
)
from gradorder.orderings.ordering import Wrapping, checked_order
from gradorder.sklearn import compiled

NAMED: dict[str, Ordering] = {
    "recommended": Shuffled(),  # no ordering that was tried is better (docs/estimators.md)
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
    """Return the ordering of the even epochs, and whether the odd epochs replay them backwards."""
    given = NAMED[ordering] if isinstance(ordering, str) else ordering
    if not isinstance(given, FlipFlop):
        return given, False
    while isinstance(given, FlipFlop):  # an inner FlipFlop only sees even epochs
        given = given.inner
    return given, True


def check(ordering: Ordering, num_examples: int, keep: float, start_epoch: int, *, flips: bool) -> None:
    """Refuse orderings that cannot train an estimator, by asking for one order before training."""
    _check_reads_norms(ordering)
    scores = torch.ones(num_examples) if ordering.needs_scores else None
    part = None if keep == 1 else keep
    shared = 2 if flips else 1  # FlipFlop's two epochs share one order
    request = Request(start_epoch, num_examples, torch.Generator(), scores, keep=part, epochs_per_order=shared)
    run = ordering.start(request)
    order = checked_order(ordering, request, ordering.order(request))
    if order.weights is not None:
        raise ValueError(
            f"ordering must give equal weights to the examples of an estimator, got {ordering}: use it with "
            "OrderedSampler"
        )
    # Estimators give no gradients to the ordering; one that needs them raises here.
    run.checked_gradients("gradients", None, order.indices.numpy(), is_due=True)


def _check_reads_norms(ordering: Ordering) -> None:
    """Refuse orderings that take scores for losses: the scores of an estimator are gradient norms."""
    inner = ordering
    while isinstance(inner, Wrapping) and not isinstance(inner, Undecided):
        inner = inner.inner
    if isinstance(inner, Unlearned | Undecided):
        raise ValueError(  # noqa: TRY004 - an ordering, only not for estimators
            f"ordering must order by gradient norms in an estimator, got {ordering}, which orders by losses. Use "
            "ordering='recommended', or use it with OrderedSampler"
        )


def order_code(ordering: Ordering) -> int:
    """Return the number of this ordering in the compiled loop; GIVEN_ORDER if it has none."""
    return _COMPILED.get(type(ordering), compiled.GIVEN_ORDER)

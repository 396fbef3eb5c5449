"""Orderings as estimators take them: an object of the library, or its name where only a string will do."""

from gradorder.orderings import (
    Ascending,
    Descending,
    FlipFlop,
    Ordering,
    PlackettLuce,
    Sequential,
    Shuffled,
    ShuffledOnce,
)
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
    Shuffled: compiled.RANDOM,
    ShuffledOnce: compiled.RANDOM_ONCE,
    Sequential: compiled.SEQUENTIAL,
    Descending: compiled.DESCENDING,
    Ascending: compiled.ASCENDING,
}


def ordering_of(ordering: Ordering | str) -> tuple[Ordering, bool]:
    """The ordering of the even epochs, and whether the odd ones play them backwards."""
    given = NAMED[ordering] if isinstance(ordering, str) else ordering
    if given.learns or given.prunes or given.is_weighted:
        raise ValueError(
            f"ordering must give every example once, with equal weights, to an estimator, got {given}: use it with "
            "OrderedSampler"
        )
    if not isinstance(given, FlipFlop):
        return given, False
    while isinstance(given, FlipFlop):  # the inner one is only ever asked about even epochs
        given = given.inner
    return given, True


def order_code(ordering: Ordering) -> int:
    """The compiled loop's number for this ordering; GIVEN_ORDER where it has none."""
    return _COMPILED.get(type(ordering), compiled.GIVEN_ORDER)

"""Arrange an order into batches, stratified by class if there are classes.

The epoch is one sequence that the loader cuts into batches of `batch_size` (the last may be smaller), so a layout only
rearranges the sequence. There are three layouts:

- contiguous: the order as given. With classes, the first batch holds the first examples of each class, and so on.
- dealt: position i of the order goes to batch i mod num_batches, so that every batch has the same spread of
  difficulty. A smaller last batch takes part only until it is full.
- shuffled: contiguous, after the kept examples were shuffled. The scores decide which examples are kept, but not their
  order.

With classes, the number of examples of each class in a batch differs from its exact share by less than one. The share
of class c in a batch of S examples is n_c S / N = w_c + f_c, with an integer w_c and a fraction f_c < 1. Every batch
gets w_c examples of class c. The fractions sum to an integer F, and systematic sampling chooses the classes of the F
remaining examples: lay the f_c end to end on a line and take the classes at u, u + 1, ..., u + F - 1. No class is taken
twice, because f_c < 1. The offsets u of the batches are equally spaced in [0, 1), so a class is taken floor or ceil of
(number of batches) f_c times, and a smaller last batch also differs from the exact shares by at most one. Consecutive
offsets differ by the golden ratio modulo 1, which spreads a rare class over the epoch. All computations use integers,
so there are no rounding errors.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

Layout = Literal["contiguous", "dealt", "shuffled"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

Indices = npt.NDArray[Any]
"""A vector of integers, of the smallest type that holds them."""

_GOLDEN = 2 / (1 + math.sqrt(5))


def lay_out(
    order: Indices,
    batch_size: int,
    *,
    layout: Layout = "contiguous",
    classes: Indices | None = None,
    backwards: bool = False,
) -> Indices:
    """Return the sequence of the epoch for an order: a permutation of it.

    Args:
        order: the examples in order.
        batch_size: the loader cuts the sequence into batches of this size.
        layout: for "shuffled" the order comes shuffled; from there on it is contiguous.
        classes: the class of each entry of `order`, from 0 on; None for batches that are not stratified.
        backwards: return the same batches, last first. A short last batch must stay last, which shifts the cuts: then
            the reversed order is laid out anew, so that the batches stay stratified.
    """
    if not backwards:
        return _forwards(order, batch_size, layout, classes)
    if len(order) % batch_size == 0:
        return _forwards(order, batch_size, layout, classes)[::-1].copy()
    return _forwards(order[::-1].copy(), batch_size, layout, None if classes is None else classes[::-1])


def _forwards(order: Indices, batch_size: int, layout: Layout, classes: Indices | None) -> Indices:
    if classes is None and layout != "dealt":
        return order
    counts = np.array([len(order)]) if classes is None else np.bincount(classes)
    by_class = order if classes is None else order.take(_stable_argsort(classes))
    seating = _Seating.of(counts, batch_size)
    # Every layout fills the seats of a class in turn: batch after batch, or round after round.
    turns = np.arange(len(seating.class_of)) if layout == "dealt" else seating.class_of
    turns = turns.astype(np.min_scalar_type(len(turns)))
    filled = _stable_argsort(turns.take(seating.seats))
    sequence = np.empty_like(order)
    sequence[filled] = by_class
    return sequence


@dataclass(frozen=True, eq=False)
class _Seating:
    """Which seat each position of the epoch is.

    A seat stands for (class, round): the round-th example of that class in its batch. Seats are numbered by
    class, then round.
    """

    seats: Indices  # of each position of the epoch
    class_of: Indices  # of each seat

    @classmethod
    def of(cls, counts: Indices, batch_size: int) -> Self:
        total = int(counts.sum())
        size = min(batch_size, total)
        num_batches, tail = divmod(total, size)
        whole, rest = np.divmod(counts * size, total)
        rounds = whole + (rest > 0)
        class_of = np.repeat(np.arange(len(counts)), rounds)
        first_seat = np.cumsum(rounds) - rounds
        round_of = np.arange(len(class_of)) - first_seat[class_of]
        by_place = np.argsort(_places(class_of, round_of, rounds), kind="stable")
        by_place = by_place.astype(np.min_scalar_type(len(by_place)))
        place_of = np.empty_like(by_place)
        place_of[by_place] = np.arange(len(by_place))

        extra = _systematic(rest, total, num_batches)
        # The places taken in each batch: those that every batch takes, and its further ones. The table has one entry
        # per example, so memory does not grow with the number of classes.
        taken = np.empty((num_batches, size), dtype=place_of.dtype)
        shared = place_of[round_of < whole[class_of]]
        taken[:, : len(shared)] = np.sort(shared)
        if extra.shape[1]:
            taken[:, len(shared) :] = place_of[(first_seat + whole)[extra]]
            taken.sort(axis=1)
        seats = by_place[taken]
        if extra.shape[1] == 1:  # all batches with the same further seat are alike
            is_last_class = extra[:, 0] == len(counts) - 1
            if is_last_class.any():
                seats[is_last_class] = _alternating(seats[is_last_class.argmax()], class_of)

        left = counts - num_batches * whole - np.bincount(extra.ravel(), minlength=len(counts))
        last = by_place[np.sort(place_of[round_of < left[class_of]])] if tail else by_place[:0]
        return cls(np.concatenate([seats.ravel(), _alternating(last, class_of)]), class_of)


def _alternating(seats: Indices, class_of: Indices) -> Indices:
    """A batch whose last seat repeats the class before it, turned so that this class leads the batch instead.

    With equal classes it happens where the last class has the only further seat: 0 1 2 0 1 2 2.
    """
    if len(seats) < 2 or class_of[seats[-1]] != class_of[seats[-2]]:  # noqa: PLR2004 - a pair
        return seats
    turned = np.roll(seats, 1)
    of_class = class_of[turned] == class_of[turned[0]]
    turned[of_class] = np.sort(turned[of_class])
    return turned


def _places(class_of: Indices, round_of: Indices, rounds: Indices) -> npt.NDArray[np.float64]:
    """Where each seat stands in its batch, in [0, 1]: every class evenly spaced, so that classes alternate.

    Classes of at most one example per batch would all stand in the middle: they are spread over the batch.
    """
    single = rounds == 1
    phase = np.where(single, (np.cumsum(single) - 0.5) / max(1, single.sum()), 0.5)
    return (round_of + phase[class_of]) / rounds[class_of]


def _systematic(rest: Indices, total: int, num_batches: int) -> Indices:
    """The classes that take the further seats of each batch, shape (num_batches, F); f_c = rest_c / total."""
    num_extra = int(rest.sum()) // total
    step = max(1, round(num_batches * _GOLDEN))
    while math.gcd(step, num_batches) != 1:
        step += 1
    offsets = np.arange(num_batches) * step % num_batches
    # u = offset / num_batches; everything times num_batches * total to stay in whole numbers.
    points = offsets[:, None] + num_batches * np.arange(num_extra)[None, :]
    edges = num_batches * np.cumsum(rest)
    return np.searchsorted(edges, points * total, side="right")


def _stable_argsort(values: Indices) -> Indices:
    """For integers of up to 16 bits numpy's stable sort is a radix sort: linear time."""
    return np.argsort(values, kind="stable")

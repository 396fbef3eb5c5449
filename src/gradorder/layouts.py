"""Order -> batches: which part of an order is kept, and which position of the epoch each example takes.

The epoch is one long sequence that the loader cuts into batches of `batch_size` (the last may be short), so a
layout only rearranges the sequence. Three of them:

- contiguous: the order as given; with classes, the hardest of each class make the first batch, and so on.
- dealt: position i of the order goes to batch i mod num_batches, like cards, so that every batch has the same
  spread of difficulty. A short last batch leaves the round once it is full.
- shuffled: contiguous, after the kept part was put in random order: what is hard is chosen, but not put first.

With classes, every batch holds its share of each class, to within one. The share of class c in a batch of S is
n_c S / N = w_c + f_c, a whole part and a rest. Every batch gets w_c; the rests sum to a whole number F of
further seats, which systematic sampling gives out: lay the f_c end to end on a line and take the classes at
u, u + 1, ..., u + F - 1. No class is taken twice, as f_c < 1. With the offsets u of the batches equally spaced
in [0, 1) a class is taken floor or ceil of (number of batches) f_c times, so that what remains for a short last
batch is within one of its share as well. Offsets advance by a golden-ratio step, so that a rare class is spread
over the epoch. All in whole numbers: no rounding decides who sits where.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
import torch

Layout = Literal["contiguous", "dealt", "shuffled"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

Indices = npt.NDArray[Any]
"""A vector of integers, of the smallest type that holds them."""

_GOLDEN = 2 / (1 + math.sqrt(5))


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of every example as a number 0..C-1, and how many examples each class has."""

    ids: Indices
    counts: Indices

    @classmethod
    def of(cls, labels: Any, num_examples: int) -> Self:  # noqa: ANN401 - anything array-like
        """From any vector of labels: integers, strings, booleans."""
        values = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
        if values.shape != (num_examples,):
            raise ValueError(
                f"labels must hold one label per example: expected shape ({num_examples},), got {values.shape}"
            )
        if values.dtype.kind not in "iubUS":
            raise ValueError(f"labels must be integers, strings or booleans, got {values.dtype}")
        if values.dtype.kind in "US" or int(values.max()) - int(values.min()) > max(num_examples, 2**16):
            _, ids, counts = np.unique(values, return_inverse=True, return_counts=True)
        else:  # counting beats sorting where the labels are small numbers
            shifted = values.astype(np.int64, copy=False) - int(values.min())
            tally = np.bincount(shifted)
            ids = (np.cumsum(tally > 0) - 1)[shifted]
            counts = tally[tally > 0]
        return cls(ids.astype(np.min_scalar_type(len(counts))), counts.astype(np.int64))

    def of_part(self, examples: Indices) -> "Classes":
        """The classes of these examples, numbered 0, 1, 2, ... as they stand."""
        ids = self.ids[examples]
        return Classes(ids, np.bincount(ids, minlength=len(self.counts)))


def num_kept(keep: float, counts: Indices) -> Indices:
    """ceil(keep * n_c) of each class, at least 1."""
    return np.maximum(1, np.ceil(keep * counts)).astype(np.int64)


def kept_part(order: Indices, kept: Indices, classes: Classes | None) -> Indices:
    """The first `kept[c]` examples of each class, or of all, in the order in which they stand."""
    if classes is None:
        return order[: int(kept[0])]
    if np.array_equal(kept, classes.counts):
        return order
    by_class = _stable_argsort(classes.ids[order])
    starts = np.cumsum(classes.counts) - classes.counts
    taken = np.zeros(len(order), dtype=bool)
    for start, count in zip(starts.tolist(), kept.tolist(), strict=True):
        taken[by_class[start : start + count]] = True
    return order[taken]


def shuffled(order: Indices, generator: torch.Generator) -> Indices:
    """The same examples in random order."""
    sequence: Indices = order[torch.randperm(len(order), generator=generator).numpy()]
    return sequence


def arranged(
    order: Indices, batch_size: int, *, layout: Layout = "contiguous", classes: Classes | None = None
) -> Indices:
    """The sequence of the epoch for an order: a permutation of it.

    For the layout "shuffled" the order comes shuffled (see `shuffled`); from there on it is contiguous.
    """
    if classes is None and layout != "dealt":
        return order
    if classes is None:
        ids, counts = np.zeros(len(order), dtype=np.uint8), np.array([len(order)])
    else:
        ids = classes.ids[order]
        counts = np.bincount(ids, minlength=len(classes.counts))
    seating = _Seating.of(counts, batch_size)
    # Every layout fills the seats of a class in turn: batch after batch, or round after round.
    turns = np.arange(len(seating.class_of)) if layout == "dealt" else seating.class_of
    turns = turns.astype(np.min_scalar_type(len(turns)))
    filled = _stable_argsort(turns[seating.seats])
    sequence = np.empty_like(order)
    sequence[filled] = order[_stable_argsort(ids)] if len(counts) > 1 else order
    return sequence


def reversed_arrangement(
    order: Indices, batch_size: int, *, layout: Layout = "contiguous", classes: Classes | None = None
) -> Indices:
    """The sequence that plays the arranged order backwards.

    The exact reverse, so that the same batches come back, last first. A short last batch must stay last, which
    shifts the cuts: then the reversed order is arranged anew, so that the batches stay balanced.
    """
    if len(order) % batch_size == 0:
        return arranged(order, batch_size, layout=layout, classes=classes)[::-1]
    return arranged(order[::-1], batch_size, layout=layout, classes=classes)


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
        num_shared = size - extra.shape[1]
        places = np.empty((num_batches, size), dtype=place_of.dtype)
        places[:, :num_shared] = np.sort(place_of[round_of < whole[class_of]])
        if num_shared < size:
            places[:, num_shared:] = place_of[(first_seat + whole)[extra]]
            places.sort(axis=1)
        seats = by_place[places]
        if num_shared == size - 1:  # all batches with the same further seat are alike
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

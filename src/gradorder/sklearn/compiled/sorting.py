"""Sorted orders: a stable sort of non-negative numbers by their bits."""

from typing import NamedTuple

import numpy as np

from gradorder.sklearn.compiled.decorators import Array, part

NUM_COUNTS = 2048
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_NUM_FOR_LARGE_DIGITS = 4096
_MOST_MOVES = 8  # by insertion, per example, before sorting by all bits is faster


class Sorting(NamedTuple):
    """What is sorted, where its order goes, and room for the work."""

    scores: Array
    places: Array
    spare_places: Array
    keys: Array
    spare_keys: Array
    counts: Array


def sorting_for(num_examples: int) -> Sorting:
    """Room to sort so many scores."""
    scores, counts = np.empty(num_examples), np.empty(NUM_COUNTS, dtype=np.int64)
    places, spare_places = np.empty((2, num_examples), dtype=np.int64)
    keys, spare_keys = np.empty((2, num_examples), dtype=np.uint64)
    return Sorting(scores, places, spare_places, keys, spare_keys, counts)


@part
def argsort(num: int, descending: bool, sorting: Sorting) -> None:
    """The stable sorting permutation of scores[:num], none of them negative or NaN, into places[:num].

    Bits of a positive float compare as the float does; zeros, which the hinge loss has many of, are set apart. Two
    counting passes sort by the upper bits of the range; what these leave equal is nearly in place, and insertion
    finishes it. Where too much is left, as with many scores that differ in their last bits only, eight passes sort by
    all 64 bits.
    """
    keys, places, spare_keys, spare_places = sorting.keys, sorting.places, sorting.spare_keys, sorting.spare_places
    num_zeros, span = _fill_keys(num, descending, sorting.scores, keys, places)
    num -= num_zeros
    positive = places[:num] if descending else places[num_zeros:]
    digit = 11 if num >= _NUM_FOR_LARGE_DIGITS else 8
    shift = 0
    while (span >> np.uint64(shift)) >> np.uint64(2 * digit) > 0:
        shift += 1
    first, last = shift, shift
    while True:
        for low in range(first, last + 1, 2 * digit):
            _counting_pass(keys, positive, spare_keys, spare_places, num, low, digit, sorting.counts)
            _counting_pass(spare_keys, spare_places, keys, positive, num, low + digit, digit, sorting.counts)
        if first == 0 or _insertion_sorted(keys, positive, num, _MOST_MOVES * num):
            return
        first, last, digit = 0, 48, 8  # stable, so what is sorted in part may be sorted again


@part
def _fill_keys(num: int, descending: bool, scores: Array, keys: Array, order: Array) -> tuple[int, np.uint64]:
    """Whole numbers from 0 on that sort as the positive scores do, and zeros in their place of the order.

    Returns the number of zeros and the largest key.
    """
    bits = scores.view(np.uint64)
    lowest, highest, num_zeros = _ALL_BITS, np.uint64(1), 0
    for i in range(num):  # 0 - 1 wraps around to the largest number there is, so zeros have no part in `lowest`
        lowest, highest = min(lowest, bits[i] - np.uint64(1)), max(highest, bits[i])
        num_zeros += bits[i] == 0
    lowest += np.uint64(1)
    place, zero_place = (0, num - num_zeros) if descending else (num_zeros, 0)
    key_place = 0
    for i in range(num):
        if bits[i] > 0:
            keys[key_place] = highest - bits[i] if descending else bits[i] - lowest
            order[place] = i
            key_place, place = key_place + 1, place + 1
        else:
            order[zero_place] = i
            zero_place += 1
    return num_zeros, highest - lowest if num_zeros < num else np.uint64(0)


@part
def _counting_pass(  # noqa: PLR0917 - a compiled function takes no keywords
    keys: Array, order: Array, new_keys: Array, new_order: Array, num: int, low: int, digit: int, places: Array
) -> None:
    """Sort keys and order by `digit` bits of the keys from bit `low` on; equal ones keep their order."""
    shift, mask = np.uint64(low), np.uint64((1 << digit) - 1)
    for value in range(1 << digit):
        places[value] = 0
    for i in range(num):
        places[(keys[i] >> shift) & mask] += 1
    place = 0
    for value in range(1 << digit):
        count = places[value]
        places[value] = place
        place += count
    for i in range(num):
        value = (keys[i] >> shift) & mask
        new_keys[places[value]], new_order[places[value]] = keys[i], order[i]
        places[value] += 1


@part
def _insertion_sorted(keys: Array, order: Array, num: int, most_moves: int) -> bool:
    """Whether insertion could sort with at most so many moves; what is equal keeps its order either way."""
    num_moves = 0
    for i in range(1, num):
        key, index, j = keys[i], order[i], i
        while j > 0 and keys[j - 1] > key:
            keys[j], order[j] = keys[j - 1], order[j - 1]
            j -= 1
        keys[j], order[j] = key, index
        num_moves += i - j
        if num_moves > most_moves:
            return False
    return True

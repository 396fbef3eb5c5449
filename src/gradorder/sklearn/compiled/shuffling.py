"""Random orders that are a function of a key and the epoch alone."""

import numpy as np

from gradorder.sklearn.compiled.decorators import Array, inlined, kept

_GOLDEN, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LOW_HALF, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@inlined
def mixed(number: np.uint64) -> np.uint64:
    """SplitMix64's output function: every bit of the number spread over all 64."""
    number = (number ^ (number >> np.uint64(30))) * _FIRST
    number = (number ^ (number >> np.uint64(27))) * _SECOND
    return number ^ (number >> np.uint64(31))


@kept
def shuffle(order: Array, num_examples: int, key: np.uint64, epoch: int) -> None:
    """A permutation of range(num_examples) that is a function of key and epoch alone (Fisher and Yates).

    Every epoch draws from a SplitMix64 stream of its own; Lemire's rejection keeps it free of bias.
    """
    for i in range(num_examples):
        order[i] = i
    state = mixed(key ^ mixed(np.uint64(epoch) + _GOLDEN))
    for i in range(num_examples - 1, 0, -1):
        num_choices = np.uint64(i + 1)
        state += _GOLDEN
        product = (mixed(state) >> _HALF) * num_choices
        if (product & _LOW_HALF) < num_choices:
            threshold = ((_LOW_HALF + np.uint64(1)) - num_choices) % num_choices
            while (product & _LOW_HALF) < threshold:
                state += _GOLDEN
                product = (mixed(state) >> _HALF) * num_choices
        j = np.int64(product >> _HALF)
        order[i], order[j] = order[j], order[i]

"""Random numbers of one epoch of one run."""

import numpy as np
import torch

LAYOUT = 1
"""The stream of the layout's random numbers, apart from those that made the order."""


def epoch_generator(seed: int, epoch: int, stream: int | None = None) -> torch.Generator:
    """A generator for this epoch, seeded from both numbers, and from a third where an epoch needs several.

    Never from seed + epoch: then seed 1 would repeat the epochs of seed 0, one late.
    """
    entropy = (seed, epoch) if stream is None else (seed, epoch, stream)
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))

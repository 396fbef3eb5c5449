"""Random numbers of one epoch of one run."""

import numpy as np
import torch


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """A generator for this epoch, seeded from both numbers.

    Never from seed + epoch: then seed 1 would repeat the epochs of seed 0, one late.
    """
    state = np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))

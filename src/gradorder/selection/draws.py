"""Random numbers of a selection: its own, different on every process, and resumable by one number."""

from typing import final

import numpy as np
import torch

from gradorder import checks
from gradorder.ranks import own_rank


@final
class Draws:
    """Uniform random numbers; draw number t of process r comes from a generator seeded by (seed, r, t).

    So the place in the sequence is t alone: a state of any process serves every other, for any number of them.
    """

    def __init__(self, seed: int) -> None:
        self._seed = checks.integer("seed", seed, minimum=0)
        self.num_made = 0

    def uniform(self, size: int, device: torch.device) -> torch.Tensor:
        """`size` numbers in [0, 1) as float64, drawn on the CPU so that every device gets the same."""
        sequence = np.random.SeedSequence(self._seed, spawn_key=(own_rank(), self.num_made))
        generator = torch.Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0]))
        self.num_made += 1
        return torch.rand(size, dtype=torch.float64, generator=generator).to(device, non_blocking=True)

"""Torch's global random numbers as hypothesis wants them, so that a case it found can be found again."""

import hypothesis
import torch


class TorchRandom:
    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


TORCH_RANDOM = TorchRandom()  # hypothesis keeps no reference of its own
hypothesis.register_random(TORCH_RANDOM)

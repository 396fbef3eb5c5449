"""A large sequence saved as one bit per example, if the seed and these bits draw it again.

Random reshuffling, also if it skips examples or is stratified, is determined by the seed, the epoch and the set of
visited examples. Then a state holds this set and a hash of the sequence instead of the sequence itself.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from gradorder.sampler.plan import EpochPlan, EpochPlanner

LARGE = 2**20
"""Up to this number of examples the sequence itself is saved: it takes at most 4 MiB, and no time to draw it again."""


def compact(planner: EpochPlanner, plan: EpochPlan) -> dict[str, torch.Tensor | int]:
    """Return entries of a state that replace the sequence of a plan; none if it has to be saved itself."""
    if planner.num_examples <= LARGE or plan.weights is not None or plan.repeats:
        return {}
    is_visited = torch.zeros(planner.num_examples, dtype=torch.bool)
    is_visited[plan.sequence] = True
    if not torch.equal(planner.shuffled(plan.epoch, is_visited), plan.sequence):
        return {}
    return {"visited": torch.from_numpy(np.packbits(is_visited.numpy())), "fingerprint": plan.fingerprint}


def expanded(planner: EpochPlanner, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a state with its sequence.

    Raises:
        ValueError: the entries are not those of `compact`, or the sequence that is drawn is another one.
    """
    if "visited" not in state:
        return state
    bits, size, epoch = state["visited"], planner.num_examples, state.get("epoch")
    if not isinstance(bits, torch.Tensor) or bits.dtype != torch.uint8 or tuple(bits.shape) != (-(-size // 8),):
        raise ValueError(f"state must hold visited as one bit for each of {size} examples, got {bits!r}")
    is_visited = torch.from_numpy(np.unpackbits(bits.cpu().numpy(), count=size).view(bool))
    if not is_visited.any() or not isinstance(epoch, int) or epoch < 0:
        raise ValueError(f"state must hold an epoch >= 0 and visited examples, got epoch={epoch!r}")
    sequence = planner.shuffled(epoch, is_visited)
    if planner.plan_of(epoch, sequence).fingerprint != state.get("fingerprint"):
        raise ValueError(
            f"state was made with another order of epoch {epoch} than this sampler draws. Use the seed, batch_size, "
            "labels and version of torch of the run that saved it"
        )
    return {**state, "sequence": sequence}

"""The state of the global random number generators, such as dropout uses, as part of a checkpoint."""

import json
import random
from typing import Any, final

import numpy as np
import torch
import torch.distributed as dist

from gradorder.ranks import exchange_device, own_rank, world_size


@final
class RandomState:
    """Saves and restores the global generators of Python, NumPy and torch, of every rank.

    Lightning and Fabric do not save them, so a resumed run with dropout is not the same run. The Lightning callback
    uses this class by itself. In a loop of your own, put it into the checkpoint beside model and optimizer::

        state = {"model": model, "optimizer": optimizer, "sampler": sampler, "random": RandomState()}
        fabric.save("checkpoint", state)
        fabric.load("checkpoint", state)

    With several processes call `state_dict` on all of them. A rank that the checkpoint does not know, because the run
    is resumed with more processes, keeps its own state.

    Example:
        >>> before = RandomState().state_dict()
        >>> drawn = torch.rand(3)
        >>> RandomState().load_state_dict(before)
        >>> torch.equal(torch.rand(3), drawn)
        True
    """

    def state_dict(self) -> dict[str, Any]:
        """One string for every rank."""
        own = torch.frombuffer(bytearray(json.dumps(_states()).encode()), dtype=torch.uint8)
        return {"ranks": [bytes(each.tolist()).decode() for each in _gathered(own)]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the generators of this rank."""
        ranks = state["ranks"]
        if own_rank() < len(ranks):
            _restore(json.loads(ranks[own_rank()]))


def _states() -> dict[str, Any]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 - the legacy generator is the global one
    states = {
        "python": random.getstate(),
        "numpy": [name, np.asarray(keys).tolist(), *rest],
        "torch": torch.get_rng_state().tolist(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state().tolist()
    return states


def _restore(states: dict[str, Any]) -> None:
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002 - as above
    torch.set_rng_state(torch.tensor(states["torch"], dtype=torch.uint8))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.tensor(states["cuda"], dtype=torch.uint8))


def _gathered(own: torch.Tensor) -> list[torch.Tensor]:
    """The bytes of every rank; spaces at the end make them equally long, which JSON ignores."""
    if world_size() == 1:
        return [own]
    device = exchange_device(dist.get_backend_config())
    length = torch.tensor(len(own), device=device)
    dist.all_reduce(length, dist.ReduceOp.MAX)
    sent = torch.full((int(length),), ord(" "), dtype=torch.uint8, device=device)
    sent[: len(own)] = own.to(device)
    received = [torch.empty_like(sent) for _ in range(world_size())]
    dist.all_gather(received, sent)
    return [each.cpu() for each in received]

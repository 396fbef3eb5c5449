"""What all published rules do with a request."""

import torch

from gradorder.orderings import Ordering, Request


def permutation(request: Request) -> torch.Tensor:
    """Return all examples in random order."""
    generator = request.generator
    return torch.randperm(request.num_examples, generator=generator, device=generator.device)


def share(fraction: float, num: int) -> int:
    """Return the nearest number of examples to a fraction of `num`, at least 1."""
    return max(1, round(fraction * num))


def is_known(request: Request) -> torch.Tensor:
    """Mark the examples that were scored at least once."""
    if request.known is None:
        return torch.ones(request.num_examples, dtype=torch.bool)
    return request.known.cpu()


def refuse_keep(rule: Ordering, request: Request) -> None:
    """Raise a ValueError if a fraction to keep is given to a rule that itself decides what to skip."""
    if request.keep is not None:
        raise ValueError(f"keep must not be given with {rule}, which itself decides how many examples to visit")

"""Ask a rule for its order, as the sampler does: with the random numbers of the epoch that the rule names."""

from typing import Any

import torch

from gradorder.orderings.ordering import Order, Ordering, Request, epoch_generator


def request_of(ordering: Ordering, num_examples: int, *, epoch: int = 0, seed: int = 0, **known: Any) -> Request:
    """What the sampler of this seed would ask."""
    return Request(epoch, num_examples, epoch_generator(seed, epoch), seed=seed, **known)


def order_of(
    ordering: Ordering, scores: torch.Tensor | None, *, num_examples: int | None = None, **known: Any
) -> Order:
    """The checked order of an epoch."""
    size = num_examples if scores is None else len(scores)
    assert size is not None
    request = request_of(ordering, size, scores=scores, **known)
    return ordering.start(request).order(request)

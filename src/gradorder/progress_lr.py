"""A learning-rate scheduler for runs whose number of steps nobody knows beforehand."""

import math
from collections.abc import Callable
from typing import Any, final

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from gradorder.sampler import OrderedSampler


def half_cosine(progress: float) -> float:
    """From 1 down to 0."""
    return (1 + math.cos(math.pi * progress)) / 2


@final
class ProgressLR(LRScheduler):
    """The learning rate as a function of how much of the run is behind: `lr * factor(sampler.progress)`.

    Call its `step` after every `sampler.step`, like any scheduler that counts steps. It looks at the sampler's place
    alone, so that a resumed run needs nothing else, and a step too many changes nothing::

        sampler = go.recommended(dataset, batch_size=128, epochs=epochs)
        scheduler = go.ProgressLR(optimizer, sampler)
        ...
            optimizer.step()
            sampler.step(losses.detach())
            scheduler.step()

    Args:
        optimizer: its learning rates now are those of the start.
        sampler: one that knows how many epochs the run has: from `go.recommended`, or built with `epochs=`.
        factor: from progress, 0 to 1, to a factor; half a cosine if not given.

    Raises:
        ValueError: the sampler was not told how many epochs the run has.
    """

    def __init__(
        self, optimizer: Optimizer, sampler: OrderedSampler, factor: Callable[[float], float] = half_cosine
    ) -> None:
        if not isinstance(sampler, OrderedSampler):
            raise TypeError(f"sampler must be an OrderedSampler, got {sampler!r}")
        if not callable(factor):
            raise TypeError(f"factor must be a function from progress to a number, got {factor!r}")
        self._sampler = sampler
        self._factor = factor
        super().__init__(optimizer)

    def get_lr(self) -> list[Any]:
        """The learning rate of every group of parameters."""
        factor = self._factor(self._sampler.progress)
        return [base * factor for base in self.base_lrs]

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers: the place in the run is the sampler's own to save."""
        return {name: value for name, value in super().state_dict().items() if name not in {"_sampler", "_factor"}}

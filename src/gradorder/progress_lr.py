"""A learning-rate scheduler for runs whose number of steps nobody knows beforehand."""

import math
from collections.abc import Callable
from typing import Any, final

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from gradorder import checks
from gradorder.sampler import OrderedSampler


def half_cosine(progress: float) -> float:
    """From 1 down to 0."""
    return (1 + math.cos(math.pi * progress)) / 2


@final
class ProgressLR(LRScheduler):
    """The learning rate as a function of how much of the run is behind: `lr * factor(sampler.progress)`.

    Call its `step` after every `sampler.step`, like any scheduler that counts steps. It looks at the sampler's place
    alone, so that a step too many changes nothing. It follows `sampler.load_state_dict` and `sampler.set_epoch` by
    itself, so that a resumed run needs nothing else::

        sampler = go.recommended(dataset, batch_size=128, epochs=epochs)
        scheduler = go.ProgressLR(optimizer, sampler)
        ...
            optimizer.step()
            sampler.step(losses.detach())
            scheduler.step()

    For a warm-up put it behind another scheduler in torch's `SequentialLR`. Not in `ChainedScheduler`: it sets the
    learning rate as a whole, and would erase the warm-up.

    Args:
        optimizer: its learning rates now are those of the start.
        sampler: one that knows how many epochs the run has: from `go.recommended`, or built with `epochs=`.
        factor: from progress, 0 to 1, to a factor, finite and not negative; half a cosine if not given.

    Raises:
        ValueError: the sampler was not told how many epochs the run has, or a factor is NaN, infinite or negative.
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
        sampler.add_follower(self)

    def get_lr(self) -> list[Any]:
        """The learning rate of every group of parameters."""
        progress = self._sampler.progress
        factor = self._factor(progress)
        if isinstance(factor, torch.Tensor):
            factor = factor.item()
        if not checks.is_number(factor) or not 0 <= factor < math.inf:
            raise ValueError(f"factor must give a finite number >= 0, got {factor!r} at progress {progress:g}")
        return [base * factor for base in self.base_lrs]

    def follow(self) -> None:
        """Set the learning rate anew: the sampler's place has changed, and not by `step`.

        Only where it is still what this scheduler has set: in a warm-up before it, another one is at work.
        """
        groups = self.optimizer.param_groups
        if [float(group["lr"]) for group in groups] != [float(rate) for rate in self._last_lr]:
            return
        for group, rate in zip(groups, self.get_lr(), strict=True):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self._last_lr = [float(group["lr"]) for group in groups]

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers: the place in the run is the sampler's own to save."""
        return {name: value for name, value in super().state_dict().items() if name not in {"_sampler", "_factor"}}

"""A learning-rate scheduler for runs whose number of steps is not known in advance."""

import math
from collections.abc import Callable
from typing import Any, final

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from gradorder import checks
from gradorder.sampler import OrderedSampler


def half_cosine(progress: float) -> float:
    """Return half a cosine, which falls from 1 to 0 as the progress goes from 0 to 1."""
    return (1 + math.cos(math.pi * progress)) / 2


@final
class ProgressLR(LRScheduler):
    """Set the learning rate from the progress of the run: `lr * factor(sampler.progress)`.

    Call its `step` after every `sampler.step`, like any scheduler that counts steps. It depends only on the position of
    the sampler, so an extra call changes nothing. `sampler.load_state_dict` and `sampler.set_epoch` update it
    automatically, also when a run is resumed::

        sampler = go.recommended(dataset, batch_size=128, epochs=epochs)
        scheduler = go.ProgressLR(optimizer, sampler)
        ...
            optimizer.step()
            sampler.step(losses.detach())
            scheduler.step()

    For a warm-up, put it after another scheduler in torch's `SequentialLR`. Do not use `ChainedScheduler`: this
    scheduler sets the learning rate itself and would overwrite the warm-up.

    Args:
        optimizer: its current learning rates are the initial ones.
        sampler: a sampler with a known number of epochs: from `go.recommended`, or built with `epochs=`.
        factor: a function from the progress, 0 to 1, to a finite factor >= 0. Defaults to half a cosine.

    Raises:
        ValueError: the sampler has no number of epochs, or a factor is NaN, infinite or negative.
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
        """Return the learning rate of every parameter group."""
        progress = self._sampler.progress
        factor = self._factor(progress)
        if isinstance(factor, torch.Tensor):
            factor = factor.item()
        if not checks.is_number(factor) or not 0 <= factor < math.inf:
            raise ValueError(f"factor must give a finite number >= 0, got {factor!r} at progress {progress:g}")
        return [base * factor for base in self.base_lrs]

    def follow(self) -> None:
        """Update the learning rate after the position of the sampler has changed without a step.

        This changes nothing if another scheduler has set the current learning rate, as during a warm-up.
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
        """Return plain numbers. The sampler saves the position in the run."""
        return {name: value for name, value in super().state_dict().items() if name not in {"_sampler", "_factor"}}

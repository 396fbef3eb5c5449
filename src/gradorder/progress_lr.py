"""A learning-rate scheduler for runs whose number of steps is not known in advance."""

import math
from collections.abc import Callable
from typing import Any, final

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from gradorder import checks
from gradorder.sampler import OrderedSampler

Factor = Callable[[float], float]
"""A function from the progress of a run, 0 to 1, to a factor of the learning rate."""


def half_cosine(progress: float) -> float:
    """Return half a cosine, which falls from 1 to 0 as the progress goes from 0 to 1."""
    return (1 + math.cos(math.pi * progress)) / 2


def warmup_cosine(warmup: float = 0.1, final: float = 0.0) -> Factor:
    """Return a factor for `ProgressLR` with a linear warm-up from 0 to 1 and half a cosine from there to `final`.

    Args:
        warmup: the part of the run that the warm-up takes, in [0, 1).
        final: the factor at the end of the run, at least 0.

    Example:
        >>> factor = warmup_cosine(warmup=0.2)
        >>> [round(factor(progress), 2) for progress in (0.0, 0.1, 0.2, 0.6, 1.0)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if not checks.is_number(warmup) or not 0 <= warmup < 1:
        raise ValueError(f"warmup must be in [0, 1), the part of the run that it takes, got {warmup!r}")
    if not checks.is_number(final) or not 0 <= final < math.inf:
        raise ValueError(f"final must be a finite number >= 0, got {final!r}")

    def factor(progress: float) -> float:
        if progress < warmup:
            return progress / warmup
        return final + (1 - final) * half_cosine((progress - warmup) / (1 - warmup))

    return factor


def one_cycle(pct_start: float = 0.3, div_factor: float = 25.0, final_div_factor: float = 1e4) -> Factor:
    """Return a factor for `ProgressLR` with the learning rates of torch's `OneCycleLR` with cosine annealing.

    The optimizer's learning rate is the largest one, `max_lr`. Momentum is not changed, as with
    `OneCycleLR(cycle_momentum=False)`.

    Args:
        pct_start: the part of the run in which the learning rate increases, in (0, 1).
        div_factor: the learning rate starts at `max_lr / div_factor`.
        final_div_factor: the learning rate ends at `max_lr / (div_factor * final_div_factor)`.

    Example:
        >>> factor = one_cycle()
        >>> [round(factor(progress), 2) for progress in (0.0, 0.3, 0.65, 1.0)]
        [0.04, 1.0, 0.5, 0.0]
    """
    if not checks.is_number(pct_start) or not 0 < pct_start < 1:
        raise ValueError(f"pct_start must be in (0, 1), got {pct_start!r}")
    initial = 1 / checks.positive("div_factor", div_factor)
    final = initial / checks.positive("final_div_factor", final_div_factor)

    def factor(progress: float) -> float:
        if progress < pct_start:
            return 1 - (1 - initial) * half_cosine(progress / pct_start)
        return final + (1 - final) * half_cosine((progress - pct_start) / (1 - pct_start))

    return factor


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

    For a warm-up, give `go.warmup_cosine()` or `go.one_cycle()` as the factor. For a warm-up of a fixed number of
    steps, put this scheduler after another one in torch's `SequentialLR`. Do not use `ChainedScheduler`: this scheduler
    sets the learning rate itself and would overwrite the warm-up.

    Args:
        optimizer: its current learning rates are the initial ones.
        sampler: a sampler with a known number of epochs: from `go.recommended`, or built with `epochs=`.
        factor: a function from the progress, 0 to 1, to a finite factor >= 0, for example `go.one_cycle()`. Defaults
            to half a cosine.

    Raises:
        ValueError: the sampler has no number of epochs, or a factor is NaN, infinite or negative.
    """

    def __init__(self, optimizer: Optimizer, sampler: OrderedSampler, factor: Factor = half_cosine) -> None:
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

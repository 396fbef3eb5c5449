"""Learning-rate schedules: callables `schedule(step, epoch) -> float`.

`step` counts training steps and `epoch` counts epochs, both from 0 at the start of the run. The order of the examples
matters most if the learning rate decreases within an epoch, as with the per-step schedules.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from gradorder import checks

NumSteps = Callable[[int, int], int]
"""The number of steps in the epochs range(first, last), for example `OrderedSampler.num_steps`."""


@dataclass(frozen=True)
class Schedule(ABC):
    """A learning-rate schedule that starts at `a`.

    Args:
        a: the initial learning rate, named as in the paper.
    """

    a: float

    def __post_init__(self) -> None:
        checks.positive("a, the initial learning rate,", self.a)

    @abstractmethod
    def __call__(self, step: int, epoch: int) -> float:
        """Return the learning rate of this step."""

    @final
    def factor(self, steps_per_epoch: int | NumSteps) -> Callable[[int], float]:
        """Return the learning rate divided by `a` as a function of the step, for `torch.optim.lr_scheduler.LambdaLR`.

        Args:
            steps_per_epoch: a number, or `sampler.num_steps` if epochs differ in length.

        Example:
            >>> factor = InversePerEpoch(0.1).factor(steps_per_epoch=100)
            >>> factor(0), factor(99), factor(100)
            (1.0, 1.0, 0.5)
        """
        epoch_of = _epoch_counter(steps_per_epoch)
        return lambda step: self(step, epoch_of(step)) / self.a


@final
@dataclass(frozen=True)
class Constant(Schedule):
    """A constant learning rate `a`."""

    def __call__(self, step: int, epoch: int) -> float:
        """Return the learning rate of this step."""
        del step, epoch
        return self.a


@dataclass(frozen=True)
class Decreasing(Schedule):
    """A learning rate that decreases with the number of steps or epochs.

    Args:
        a: the initial learning rate.
        since: the step (for the per-epoch schedules: the epoch) at which the count restarts from 0, for a switch in the
            middle of a run. Before it, the count starts at the beginning of the run.
    """

    since: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("since", self.since, minimum=0)

    @final
    def count(self, steps_or_epochs: int) -> int:
        """Return the number of steps or epochs since the count started or restarted."""
        return steps_or_epochs - self.since if steps_or_epochs >= self.since else steps_or_epochs


@final
@dataclass(frozen=True)
class InversePerStep(Decreasing):
    """The learning rate a / (1 + t / scale) in step t. After `scale` steps it is a / 2.

    Example:
        >>> [InversePerStep(0.3)(step, 0) for step in (0, 2)]
        [0.3, 0.09999999999999999]
    """

    scale: float = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive("scale", self.scale)

    def __call__(self, step: int, epoch: int) -> float:
        """Return the learning rate of this step."""
        del epoch
        return self.a / (1 + self.count(step) / self.scale)


@final
@dataclass(frozen=True)
class InverseSqrtPerStep(Decreasing):
    """The learning rate a / sqrt(1 + t) in step t."""

    def __call__(self, step: int, epoch: int) -> float:
        """Return the learning rate of this step."""
        del epoch
        return self.a / math.sqrt(1 + self.count(step))


@final
@dataclass(frozen=True)
class InversePerEpoch(Decreasing):
    """The learning rate a / (1 + k) in epoch k."""

    def __call__(self, step: int, epoch: int) -> float:
        """Return the learning rate of this step."""
        del step
        return self.a / (1 + self.count(epoch))


@final
@dataclass(frozen=True)
class InverseSqrtPerEpoch(Decreasing):
    """The learning rate a / sqrt(1 + k) in epoch k."""

    def __call__(self, step: int, epoch: int) -> float:
        """Return the learning rate of this step."""
        del step
        return self.a / math.sqrt(1 + self.count(epoch))


def _epoch_counter(steps_per_epoch: int | NumSteps) -> Callable[[int], int]:
    """Return a function from a step to its epoch."""
    if not callable(steps_per_epoch):
        length = checks.integer("steps_per_epoch", steps_per_epoch, minimum=1)
        return lambda step: step // length
    num_steps = steps_per_epoch
    ends: list[int] = []  # the first step after each epoch, computed when needed

    def epoch_of(step: int) -> int:
        while not ends or ends[-1] <= step:
            ends.append((ends[-1] if ends else 0) + num_steps(len(ends), len(ends) + 1))
        return bisect_right(ends, step)

    return epoch_of

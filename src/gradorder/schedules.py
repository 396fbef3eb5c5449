"""Step sizes: callables `schedule(step, epoch) -> float`.

`step` counts updates and `epoch` counts epochs, both from 0 at the start of the run. The order of the examples
matters most where the step size decreases within an epoch: the per-step schedules.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from gradorder import checks

NumSteps = Callable[[int, int], int]
"""Steps of the epochs range(first, last): `OrderedSampler.num_steps` is one."""


@dataclass(frozen=True)
class Schedule(ABC):
    """A step size that starts at `a`.

    Args:
        a: the first step size; the letter is the paper's.
    """

    a: float

    def __post_init__(self) -> None:
        checks.positive("a, the first step size,", self.a)

    @abstractmethod
    def __call__(self, step: int, epoch: int) -> float:
        """The step size of this update."""

    @final
    def factor(self, steps_per_epoch: int | NumSteps) -> Callable[[int], float]:
        """The step size over `a` as a function of the step alone, for `torch.optim.lr_scheduler.LambdaLR`.

        Args:
            steps_per_epoch: a number, or `sampler.num_steps` where epochs differ in length.

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
    """The same step size a in every step."""

    def __call__(self, step: int, epoch: int) -> float:
        """The step size of this update."""
        del step, epoch
        return self.a


@dataclass(frozen=True)
class Decreasing(Schedule):
    """A step size that decreases with a count of steps or epochs.

    Args:
        a: the first step size.
        since: the step (for the per-epoch schedules: the epoch) at which the count starts again from 0, for
            a switch in the middle of a run. Before it the count runs from the start.
    """

    since: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("since", self.since, minimum=0)

    @final
    def count(self, steps_or_epochs: int) -> int:
        """The count since the last start."""
        return steps_or_epochs - self.since if steps_or_epochs >= self.since else steps_or_epochs


@final
@dataclass(frozen=True)
class InversePerStep(Decreasing):
    """a / (1 + t / scale); `scale` of one epoch's steps gives a / 2 after one epoch.

    Example:
        >>> [InversePerStep(0.3)(step, 0) for step in (0, 2)]
        [0.3, 0.09999999999999999]
    """

    scale: float = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive("scale", self.scale)

    def __call__(self, step: int, epoch: int) -> float:
        """The step size of this update."""
        del epoch
        return self.a / (1 + self.count(step) / self.scale)


@final
@dataclass(frozen=True)
class InverseSqrtPerStep(Decreasing):
    """a / sqrt(1 + t)."""

    def __call__(self, step: int, epoch: int) -> float:
        """The step size of this update."""
        del epoch
        return self.a / math.sqrt(1 + self.count(step))


@final
@dataclass(frozen=True)
class InversePerEpoch(Decreasing):
    """a / (1 + k)."""

    def __call__(self, step: int, epoch: int) -> float:
        """The step size of this update."""
        del step
        return self.a / (1 + self.count(epoch))


@final
@dataclass(frozen=True)
class InverseSqrtPerEpoch(Decreasing):
    """a / sqrt(1 + k)."""

    def __call__(self, step: int, epoch: int) -> float:
        """The step size of this update."""
        del step
        return self.a / math.sqrt(1 + self.count(epoch))


def _epoch_counter(steps_per_epoch: int | NumSteps) -> Callable[[int], int]:
    """The epoch of a step."""
    if not callable(steps_per_epoch):
        length = checks.integer("steps_per_epoch", steps_per_epoch, minimum=1)
        return lambda step: step // length
    num_steps = steps_per_epoch
    ends: list[int] = []  # the first step after each epoch, as far as they were asked for

    def epoch_of(step: int) -> int:
        while not ends or ends[-1] <= step:
            ends.append((ends[-1] if ends else 0) + num_steps(len(ends), len(ends) + 1))
        return bisect_right(ends, step)

    return epoch_of

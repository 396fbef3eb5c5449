"""The length of a run: the steps of its epochs, and the progress through them."""

from itertools import accumulate

import torch

from gradorder import checks
from gradorder.sampler.plan import EpochPlan, EpochPlanner


class RunLength:
    """The steps of every epoch: as planned or, before that, as they will be once there are scores.

    Args:
        planner: plans the epochs.
        epochs: the number of epochs of the run, for `progress`.
    """

    def __init__(self, planner: EpochPlanner, epochs: int | None) -> None:
        self._planner = planner
        self._planned: dict[int, int] = {}
        self._announced: dict[int, int] = {}
        self.epochs = None if epochs is None else checks.integer("epochs", epochs, minimum=1)
        steps = [planner.known_steps(epoch) for epoch in range(self.epochs or 0)]
        # If the steps of some epoch are not known yet, every epoch is the same part of the run.
        self._starts = [0, *accumulate(1 if None in steps else number or 0 for number in steps)]

    def steps_of(self, epoch: int) -> int:
        """The steps of an epoch. An answer for an epoch that is not planned yet is an announcement."""
        if epoch in self._planned:
            return self._planned[epoch]
        return self._announced.setdefault(epoch, self._planner.num_steps(epoch))

    def enter(self, plan: EpochPlan) -> None:
        """Note the steps of an epoch that is planned or begins."""
        self._planned[plan.epoch] = plan.num_batches

    def broken_announcement(self, plan: EpochPlan) -> int | None:
        """The number of steps that was announced for this epoch, if the plan has another; reported once."""
        announced = self._announced.pop(plan.epoch, plan.num_batches)
        return None if announced == plan.num_batches else announced

    def progress(self, epoch: int, part: float) -> float:
        """The part of the run before this part of an epoch; 1 for every epoch after the last."""
        if self.epochs is None:
            raise ValueError("epochs must be given to the sampler for its progress, got None")
        if epoch >= self.epochs:
            return 1.0
        start, end = self._starts[epoch : epoch + 2]
        return (start + part * (end - start)) / self._starts[-1]

    def state(self) -> torch.Tensor:
        """The planned epochs as rows (epoch, steps)."""
        return torch.tensor(sorted(self._planned.items()), dtype=torch.int64).reshape(-1, 2)

    def load(self, state: torch.Tensor) -> None:
        """Restore the result of `state`."""
        self._planned = dict(state.tolist())

"""How many training steps each epoch has: as planned, or as it will be once there are scores."""

import torch

from gradorder.sampler.plan import EpochPlan
from gradorder.sampler.planner import EpochPlanner


class StepCounts:
    """The steps of every epoch that was planned, and those that were counted before."""

    def __init__(self, planner: EpochPlanner) -> None:
        self._planner = planner
        self._planned: dict[int, int] = {}
        self._expected: dict[int, int] = {}

    def of(self, epoch: int) -> int:
        """The steps of an epoch; once asked for, they are expected."""
        if epoch in self._planned:
            return self._planned[epoch]
        return self._expected.setdefault(epoch, self._planner.num_steps(epoch))

    def enter(self, plan: EpochPlan) -> None:
        """Note the steps of an epoch that is planned or begins; a later plan of it, with scores, replaces them."""
        self._planned[plan.epoch] = plan.num_batches

    def surprise(self, plan: EpochPlan) -> int | None:
        """What was expected of this epoch, if that was not what it has; said once."""
        expected = self._expected.pop(plan.epoch, plan.num_batches)
        return None if expected == plan.num_batches else expected

    def state(self) -> torch.Tensor:
        """The planned epochs as rows (epoch, steps)."""
        return torch.tensor(sorted(self._planned.items()), dtype=torch.int64).reshape(-1, 2)

    def load(self, state: torch.Tensor) -> None:
        """Take what `state` gave."""
        self._planned = dict(state.tolist())

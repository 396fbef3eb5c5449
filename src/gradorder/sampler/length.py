"""The length of a run: the steps and examples of its epochs, the progress through them, and its end."""

from dataclasses import dataclass, field
from itertools import accumulate

import torch

from gradorder.orderings.ordering import OrderingRun
from gradorder.sampler.plan import EpochPlan, EpochPlanner


@dataclass
class Visits:
    """The epochs of a run that are over, counted in complete epochs.

    Args:
        is_counted: whether the run ends when `worth` reaches the number of epochs. Otherwise it ends after that many
            epochs, however long they are.
        worth: the epochs so far, each counted as its ordering says.
        gradients: the examples visited so far, in units of the dataset.
    """

    is_counted: bool = False
    worth: float = 0.0
    gradients: float = 0.0


@dataclass
class RunLength:
    """The steps of every epoch: as planned or, before that, as they will be once there are scores.

    Args:
        planner: plans the epochs of the run.
    """

    planner: EpochPlanner
    visits: Visits = field(default_factory=Visits)

    def __post_init__(self) -> None:
        self._planned: dict[int, tuple[int, int]] = {}
        self._announced: dict[int, int] = {}
        steps = [self.planner.known_steps(epoch) for epoch in range(self.planner.epochs or 0)]
        # If the steps of some epoch are not known yet, every epoch is the same part of the run.
        self._starts = [0, *accumulate(1 if None in steps else number or 0 for number in steps)]

    def steps_of(self, epoch: int) -> int:
        """The steps of an epoch. An answer for an epoch that is not planned yet is an announcement."""
        if epoch in self._planned:
            return self._planned[epoch][0]
        return self._announced.setdefault(epoch, self.planner.num_steps(epoch))

    @property
    def examples_per_epoch(self) -> dict[int, int]:
        """The number of examples of every epoch that was planned."""
        return {epoch: num_examples for epoch, (_, num_examples) in sorted(self._planned.items())}

    def enter(self, plan: EpochPlan) -> None:
        """Note the steps of an epoch that is planned or begins."""
        self._planned[plan.epoch] = plan.num_batches, len(plan.sequence)

    def broken_announcement(self, plan: EpochPlan) -> int | None:
        """The number of steps that was announced for this epoch, if the plan has another; reported once."""
        announced = self._announced.pop(plan.epoch, plan.num_batches)
        return None if announced == plan.num_batches else announced

    # ---------------------------------------------------------------- progress and end

    @property
    def epochs(self) -> int:
        """The number of epochs of the run."""
        if self.planner.epochs is None:
            raise ValueError("epochs must be given to the sampler for the progress of its run, got None")
        return self.planner.epochs

    def start(self, epoch: int) -> None:
        """Count the visits of epochs from now on; the epochs before this one count as complete."""
        if not self.visits.is_counted:
            before = min(epoch, self.epochs)
            self.visits = Visits(is_counted=True, worth=before, gradients=before)

    def leave(self, plan: EpochPlan, run: OrderingRun) -> None:
        """Count an epoch that is over."""
        if not self.visits.is_counted:
            return
        self.visits = Visits(
            self.visits.is_counted, self.visits.worth + self._worth(plan, run), self.visits.gradients + self._part(plan)
        )

    def is_last(self, plan: EpochPlan, run: OrderingRun) -> bool:
        """Whether the run ends with this epoch."""
        if not self.visits.is_counted or not run.prunes:
            return plan.epoch >= self.epochs - 1
        # Round to whole epochs. If a further complete epoch would cost more than the plain run, there is none.
        worth = run.worth(self._part(plan))
        costs_more = self.visits.gradients + self._part(plan) + 1 > self.epochs
        return self.epochs - self.visits.worth - worth < worth / 2 or costs_more

    def is_beyond(self, plan: EpochPlan, run: OrderingRun) -> bool:
        """Whether an epoch comes after the last one."""
        if self.visits.is_counted and run.prunes:
            return self.visits.worth >= self.epochs
        return plan.epoch >= self.epochs

    def progress(self, plan: EpochPlan, part: float, run: OrderingRun) -> float:
        """The part of the run before this part of an epoch; 1 for every epoch after the last."""
        if self.visits.is_counted and run.prunes:
            return min(1.0, (self.visits.worth + part * self._worth(plan, run)) / self.epochs)
        if plan.epoch >= self.epochs:
            return 1.0
        start, end = self._starts[plan.epoch : plan.epoch + 2]
        return (start + part * (end - start)) / self._starts[-1]

    def _worth(self, plan: EpochPlan, run: OrderingRun) -> float:
        """How many epochs this one counts; the last one counts what is left, so that the progress ends at 1."""
        return self.epochs - self.visits.worth if self.is_last(plan, run) else run.worth(self._part(plan))

    def _part(self, plan: EpochPlan) -> float:
        return len(plan.sequence) / self.planner.num_complete

    # ---------------------------------------------------------------- state

    def state(self) -> torch.Tensor:
        """The planned epochs as rows (epoch, steps, examples)."""
        rows = [(epoch, *numbers) for epoch, numbers in sorted(self._planned.items())]
        return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)

    def load(self, state: torch.Tensor, visits: Visits) -> None:
        """Restore planned epochs and visits."""
        self._planned = {epoch: (steps, num_examples) for epoch, steps, num_examples in state.tolist()}
        self.visits = visits

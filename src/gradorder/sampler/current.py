"""The epoch under way: its plan, what loaders were handed of it, and what training has used."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch

from gradorder.errors import StepError
from gradorder.sampler.layout import Indices
from gradorder.sampler.plan import EpochPlan


@dataclass
class Iteration:
    """One loader's way through a plan.

    Between the batch that was handed out last and the one that training uses now lie those that the loader has fetched
    ahead. Their number shows at the first `step`, and never grows: where it seems to, a batch was used without `step`.
    """

    start: int = 0
    """The first batch: 0 unless a run was resumed."""
    issued: int = 0
    """Batches whose first example was handed out."""
    consumed: int = 0
    """Batches for which `step` was called."""
    ahead: int | None = None
    """Batches that the loader had fetched ahead at the first `step`."""
    is_verified: bool = False
    """Whether the last `step` named its examples, and they were the right ones."""
    has_gap: bool = False
    """Whether a batch was skipped without `step`."""

    @classmethod
    def starting_at(cls, batch: int) -> Self:
        """Before the first batch is issued."""
        return cls(batch, batch, batch)

    def consume(self, *, is_verified: bool) -> None:
        """One batch more."""
        ahead = self.issued - self.consumed - 1
        self.ahead = ahead if self.ahead is None else self.ahead
        self.has_gap = not is_verified and (self.has_gap or ahead > self.ahead)
        self.is_verified = is_verified
        self.consumed += 1

    @property
    def is_out_of_step(self) -> bool:
        """Whether a batch before the one that is used now was skipped without `step`."""
        return self.has_gap or (self.ahead is not None and self.issued - self.consumed - 1 > self.ahead)


@dataclass(eq=False)
class CurrentEpoch:
    """A plan and how far it is carried out.

    Args:
        plan: of the epoch.
        source_epoch: the epoch whose scores made the plan.
        source_scores: those scores, kept where a later epoch will replay this one.
        iteration: the last loader that began; a new one takes its place.
        is_resuming: whether the next loader goes on behind what was consumed.
        was_finished: whether training has used all of it once already.
    """

    plan: EpochPlan
    source_epoch: int
    source_scores: torch.Tensor | None = None
    iteration: Iteration = field(default_factory=Iteration)
    is_resuming: bool = False
    was_finished: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether training has used every batch."""
        return self.iteration.consumed >= self.plan.num_batches

    def begin(self) -> Iteration:
        """A loader starts: at the first batch or, once after a resume, behind what was consumed."""
        start = self.iteration.consumed if self.is_resuming else 0
        self.was_finished = self.was_finished or (self.is_finished and not self.is_resuming)
        self.is_resuming = False
        self.iteration = Iteration.starting_at(start)
        return self.iteration

    def next_examples(self, named: Sequence[int] | torch.Tensor | None) -> tuple[int, Indices]:
        """The batch that this `step` consumes, and this process's examples of it: those that it names, if it does."""
        iteration, batch, epoch = self.iteration, self.iteration.consumed, self.plan.epoch
        if batch >= iteration.issued:
            raise StepError(
                f"step must follow a batch: {iteration.issued} were issued in this iteration of epoch {epoch} and "
                f"{batch} consumed already. Does the loader have sampler=sampler and "
                f"batch_size=sampler.loader_batch_size, here {self.plan.batch_size // self.plan.num_replicas}?"
            )
        examples = self.plan.examples(batch)
        if named is None or np.array_equal(torch.as_tensor(named).cpu().numpy(), examples):
            return batch, examples
        names = torch.as_tensor(named).cpu().numpy()
        others = range(batch + 1, iteration.issued)
        later = next((other for other in others if np.array_equal(names, self.plan.examples(other))), None)
        which = "nor of a later one" if later is None else f"they are those of batch {later}: call step for every batch"
        raise StepError(
            f"indices must be the examples of batch {batch} of epoch {epoch}, for which step was not called yet, and "
            f"are not; {which}"
        )

    def next_weights(self) -> torch.Tensor:
        """The weights of the batch that the next `step` consumes."""
        batch = self._next_batch()
        if self.plan.weights is not None and self.iteration.is_out_of_step:
            raise StepError(
                f"step was not called for every batch before batch {batch} of epoch {self.plan.epoch}, so the weights "
                "would be those of other examples: call it for every batch, also for one that is skipped"
            )
        return self.plan.batch_weights(batch)

    def loss_scale(self) -> float:
        """This process's share of the batch that the next `step` consumes, over an equal share."""
        batch = self._next_batch()
        return len(self.plan.examples(batch)) * self.plan.num_replicas / self.plan.batch_length(batch)

    def _next_batch(self) -> int:
        if self.is_finished:
            raise StepError(f"epoch {self.plan.epoch} is over: no batch is left for the next step")
        return self.iteration.consumed

    def doubtful(self) -> torch.Tensor:
        """The examples whose scores may be another's, of all processes.

        All batches were handed out, but `step` did not count them all. Either the loop was left while the loader was
        ahead, and the scores are right; or the first batch or one of the last was skipped, and they are not.
        """
        each = self.iteration
        is_clear = self.is_finished or each.is_verified or not each.ahead or each.issued < self.plan.num_batches
        first, last = each.start * self.plan.batch_size, each.consumed * self.plan.batch_size
        return self.plan.sequence[:0] if is_clear else self.plan.sequence[first:last]

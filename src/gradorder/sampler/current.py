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
    The sampler's own loader says which batches training has got, so that what it fetches ahead makes no difference.
    """

    start: int = 0
    """The first batch: 0 unless a run was resumed."""
    issued: int = 0
    """Batches whose first example was handed out."""
    delivered: int | None = None
    """Those of them that training has got, where the loader tells."""
    consumed: int = 0
    """Batches for which `step` was called."""
    ahead: int | None = None
    """Batches handed out beyond the one that the first `step` was for."""
    is_verified: bool = False
    """Whether the last `step` named its examples, and they were the right ones."""
    has_gap: bool = False
    """Whether a batch was skipped without `step`."""

    @classmethod
    def starting_at(cls, batch: int) -> Self:
        """Before the first batch is issued."""
        return cls(batch, issued=batch, consumed=batch)

    def deliver(self, num_batches: int = 1) -> None:
        """Training has got so many batches more."""
        self.delivered = (self.start if self.delivered is None else self.delivered) + num_batches

    @property
    def handed(self) -> int:
        """Batches that training may have used."""
        return self.issued if self.delivered is None else self.delivered

    def consume(self, *, is_verified: bool) -> None:
        """One batch more."""
        ahead = self.handed - self.consumed - 1
        self.ahead = ahead if self.ahead is None else self.ahead
        self.has_gap = not is_verified and (self.has_gap or ahead > self.ahead)
        self.is_verified = is_verified
        self.consumed += 1

    @property
    def is_stepped(self) -> bool:
        """Whether a batch of it was used; of a loaded place none was, here."""
        return self.consumed > self.start

    @property
    def is_out_of_step(self) -> bool:
        """Whether a batch before the one that is used now was skipped without `step`."""
        return self.has_gap or (self.ahead is not None and self.handed - self.consumed - 1 > self.ahead)


@dataclass(eq=False)
class CurrentEpoch:
    """A plan and how far it is carried out.

    Args:
        plan: of the epoch.
        source_epoch: the epoch whose scores made the plan.
        source_scores: those scores, kept where a later epoch will replay this one.
        place: where steps have led: the last loader that `step` was called for, or what a state brought. A loader that
            is only looked at does not change it.
        is_loaded: whether the next loader goes on at the place, behind what was consumed.
    """

    plan: EpochPlan
    source_epoch: int
    source_scores: torch.Tensor | None = None
    place: Iteration = field(default_factory=Iteration)
    is_loaded: bool = False
    is_repeated: bool = False
    """Whether training uses batches again of an epoch that it had used up, or that a state says it had used."""

    def __post_init__(self) -> None:
        self.iteration = self.place
        """The last loader that began."""
        self._doubtful_before = self.plan.sequence[:0]

    @property
    def is_resuming(self) -> bool:
        """Whether nothing has come of a loaded place yet: no `step`, and no loader that came to its end."""
        has_ended = self.iteration is not self.place and self.iteration.handed >= self.plan.num_batches
        return self.is_loaded and not has_ended

    def begin(self) -> Iteration:
        """A loader starts: at the first batch or, after a resume, behind what was consumed."""
        self.is_loaded = self.is_resuming
        self.iteration = Iteration.starting_at(self.place.consumed if self.is_loaded else 0)
        return self.iteration

    def consume(self, *, is_verified: bool) -> bool:
        """Count a batch; whether it is the first one of the plan, with nothing behind it."""
        is_first = self.iteration.consumed == 0
        if self.iteration is not self.place:
            self._doubtful_before = self.doubtful(is_over=True)
            is_used_up = self.place.handed >= self.plan.num_batches or not self.place.is_stepped
            self.is_repeated = is_used_up and self.place.consumed > self.iteration.start
            self.place, self.is_loaded = self.iteration, False
        self.place.consume(is_verified=is_verified)
        return is_first

    def next_examples(self, named: Sequence[int] | torch.Tensor | None) -> tuple[int, Indices]:
        """The batch that this `step` consumes, and this process's examples of it: those that it names, if it does."""
        iteration, batch, epoch = self.iteration, self.iteration.consumed, self.plan.epoch
        if batch >= iteration.handed:
            raise StepError(
                f"step must follow a batch: {iteration.handed} were issued in this iteration of epoch {epoch} and "
                f"{batch} consumed already. Does the loader have sampler=sampler and "
                f"batch_size=sampler.loader_batch_size, here {self.plan.batch_size // self.plan.num_replicas}?"
            )
        examples = self.plan.examples(batch)
        if named is None or np.array_equal(torch.as_tensor(named).cpu().numpy(), examples):
            return batch, examples
        names = torch.as_tensor(named).cpu().numpy()
        others = range(batch + 1, iteration.handed)
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
        if self.iteration.consumed >= self.plan.num_batches:
            raise StepError(f"epoch {self.plan.epoch} is over: no batch is left for the next step")
        return self.iteration.consumed

    def doubtful(self, *, is_over: bool) -> torch.Tensor:
        """The examples whose scores may be another's, of all processes.

        At the first `step` more than its batch had been handed out, and since then `step` has not counted all. Either
        the loader is ahead, and the scores are right; or the first batch or one of the last was skipped, and they are
        not. Where the loader tells what training has got, it is most likely the latter. Any other loader is believed
        to be ahead until all was handed out and no `step` is to come.

        Args:
            is_over: whether no `step` is to come.
        """
        each, num_batches = self.place, self.plan.num_batches
        is_proven = each.consumed >= num_batches or each.is_verified or not each.ahead
        is_believed = each.delivered is None and not (is_over and each.issued >= num_batches)
        if is_proven or is_believed:
            return self._doubtful_before
        own = self.plan.sequence[each.start * self.plan.batch_size : each.consumed * self.plan.batch_size]
        return torch.cat([self._doubtful_before, own])

"""The position in an epoch: how many batches a loader has fetched, and how many of them training has used.

One rule holds for every loader: the k-th `step` belongs to the k-th batch, whatever was prefetched. If an epoch was
delivered completely and had another number of steps than batches, its scores may belong to other examples, and the
sampler discards them when it plans the next epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gradorder.errors import StepError
from gradorder.sampler.plan import EpochPlan, Indices


@dataclass(eq=False)
class Pass:
    """One iteration of a loader over the epoch."""

    position: "Position"
    start: int
    """The first batch: 0, except after a resume."""
    issued: int
    """Batches whose indices the loader has fetched."""
    received: int | None = None
    """Batches that training has received. Only the sampler's own loader knows."""

    @property
    def delivered(self) -> int:
        """Batches that training may have used."""
        return self.issued if self.received is None else self.received

    @property
    def is_over(self) -> bool:
        """Whether every batch was delivered."""
        return self.delivered >= self.position.plan.num_batches


class Position:
    """The plan of an epoch and how far training has used it.

    A loader that is only looked at changes nothing: the position follows the passes that `step` was called for.

    Args:
        plan: the plan of the epoch.
        steps: batches that were used before a checkpoint.
        is_loaded: whether the next pass continues after these batches.
    """

    def __init__(self, plan: EpochPlan, steps: int = 0, *, is_loaded: bool = False) -> None:
        self.plan = plan
        self.steps = steps
        self.latest: Pass | None = None
        self._trained: Pass | None = None  # the pass that `steps` counts
        self._is_loaded = is_loaded
        self._num_verified = 0  # steps up to the last one with checked indices
        self._discarded_before = plan.sequence[:0]

    @property
    def is_resuming(self) -> bool:
        """Whether the next pass continues at the loaded position: no step was made, and no pass came to its end."""
        return self._is_loaded and not (self.latest is not None and self.latest.is_over)

    def begin(self) -> Pass:
        """Start a pass at the first batch or, after a resume, behind the batches that were used."""
        self._is_loaded = self.is_resuming
        start = self.steps if self._is_loaded else 0
        self.latest = Pass(self, start, issued=start)
        return self.latest

    @property
    def num_used(self) -> int:
        """Batches that were used if every delivered batch was: for loops that never call `step`."""
        return self.steps if self.latest is None else self.latest.delivered

    # ---------------------------------------------------------------- the next step

    @property
    def _upcoming(self) -> int:
        """The batch that the next `step` belongs to; a new pass counts from its own start."""
        if self.latest is None or self.latest is self._trained:
            return self.steps
        return self.latest.start

    def next_batch(self) -> int:
        """The number of the batch that the next `step` belongs to."""
        if self._upcoming >= self.plan.num_batches:
            raise StepError(f"epoch {self.plan.epoch} is over: no batch is left for the next step")
        return self._upcoming

    def check_step(self, indices: Sequence[int] | torch.Tensor | None) -> tuple[int, Indices]:
        """The batch that a `step` belongs to and this rank's examples of it, compared with `indices` if given."""
        num_delivered = 0 if self.latest is None else self.latest.delivered
        batch = self._upcoming
        if batch >= num_delivered:
            raise StepError(
                f"step must follow a batch: {num_delivered} batches of epoch {self.plan.epoch} were delivered, and "
                f"step was called for {batch} of them. Call it once per batch. A loader of your own needs "
                f"sampler=sampler and batch_size=sampler.loader_batch_size, here {self.plan.rank_batch_size}"
            )
        examples = self.plan.examples(batch)
        if indices is not None:
            self._check_indices(batch, examples, torch.as_tensor(indices).cpu().numpy(), num_delivered)
        return batch, examples

    def _check_indices(self, batch: int, examples: Indices, given: Indices, num_delivered: int) -> None:
        if np.array_equal(given, examples):
            return
        later = (other for other in range(batch + 1, num_delivered) if np.array_equal(given, self.plan.examples(other)))
        found = next(later, None)
        hint = "" if found is None else f" They are the examples of batch {found}: call step for every batch."
        raise StepError(
            f"indices must be the examples of batch {batch} of epoch {self.plan.epoch}, the next one without a step, "
            f"and they are not.{hint}"
        )

    def step(self, *, is_verified: bool) -> bool:
        """Count a batch as used; returns whether it belongs to an epoch that training had used before."""
        is_repeated = False
        if self.latest is not self._trained and self.latest is not None:
            self._discarded_before = self.discarded()
            is_over = self.steps == self.plan.num_batches or self._trained is None  # or a checkpoint says so
            is_repeated = is_over and self.steps > self.latest.start
            self.steps, self._trained = self.latest.start, self.latest
            self._num_verified = min(self._num_verified, self.steps)
            self._is_loaded = False
        self.steps += 1
        if is_verified:
            self._num_verified = self.steps
        return is_repeated

    # ---------------------------------------------------------------- the comparison

    @property
    def is_mismatched(self) -> bool:
        """Whether the number of steps is known to differ from the number of batches that training received."""
        trained = self._trained
        if trained is None or self._num_verified == self.steps:
            return False
        if trained.received is None:
            return trained.is_over and self.steps != self.plan.num_batches
        return self.steps != trained.received

    def discarded(self) -> torch.Tensor:
        """The examples, over all ranks, whose scores may belong to other examples."""
        if not self.is_mismatched:
            return self._discarded_before
        size = self.plan.batch_size
        return torch.cat([self._discarded_before, self.plan.sequence[self._num_verified * size : self.steps * size]])

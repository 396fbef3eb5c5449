"""What an ordering that learns from gradients has learned in one run."""

import warnings
from collections.abc import Mapping
from typing import Any, Self

import torch

from gradorder.orderings import Ordering
from gradorder.plan import EpochPlan


class Lessons:
    """The learner of an ordering, taught batch by batch; of an ordering that does not learn, nothing at all.

    Args:
        ordering: it decides whether there is a learner.
        num_examples: of the data set.
        state: what `state` gave; without it nothing was learned yet.
    """

    def __init__(self, ordering: Ordering, num_examples: int, state: Mapping[str, Any] | None = None) -> None:
        self._ordering = ordering
        self._num_examples = num_examples
        self._learner = ordering.learner(num_examples)
        if self._learner is not None and state is not None:
            self._learner.load(state)

    @property
    def are_given(self) -> bool:
        """Whether there is a learner."""
        return self._learner is not None

    def state(self) -> dict[str, torch.Tensor | int]:
        """Everything, as plain tensors and numbers."""
        return {} if self._learner is None else self._learner.state()

    def with_state(self, state: Mapping[str, Any]) -> Self:
        """New ones that were taught what the state says."""
        return type(self)(self._ordering, self._num_examples, state)

    def order(self) -> torch.Tensor | None:
        """The last order that was learned, if any."""
        return None if self._learner is None else self._learner.order()

    def begin_epoch(self) -> None:
        """Forget what was seen of this epoch."""
        if self._learner is not None:
            self._learner.begin_epoch()

    def end_epoch(self, plan: EpochPlan, *, was_due: bool) -> None:
        """Learn the next order, if all of this epoch was seen; where that `was_due` and is not so, say it."""
        if self._learner is None:
            return
        num_learned, num_planned = self._learner.num_learned, len(plan.sequence)
        if num_learned == num_planned:
            self._learner.end_epoch()
            return
        if was_due:
            warnings.warn(
                f"epoch {plan.epoch} ended after the gradients of {num_learned} of {num_planned} examples: "
                f"{self._ordering} learns from complete epochs only, so its order stays as it was",
                stacklevel=5,  # at the caller of `set_epoch`
            )
        self._learner.begin_epoch()

    def checked(
        self, what: str, gradients: torch.Tensor | None, examples: torch.Tensor, *, are_due: bool
    ) -> torch.Tensor | None:
        """The gradients to learn from, None where none `are_due`; changes nothing."""
        if self._learner is None:
            if gradients is not None:
                raise ValueError(f"gradients must not be given with {self._ordering}, which does not learn from them")
            return None
        if not are_due:
            return None
        if gradients is None:
            raise ValueError(
                f"gradients must be given to every step with {self._ordering}, which learns from them, got None"
            )
        return self._learner.checked(what, gradients, examples)

    def learn(self, examples: torch.Tensor, gradients: torch.Tensor | None) -> None:
        """See the gradients of the next examples, as `checked` gave them."""
        if self._learner is not None and gradients is not None:
            self._learner.learn(examples, gradients)

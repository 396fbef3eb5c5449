"""What an ordering learns from the gradients of one run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

ExampleIndices = npt.NDArray[np.int64]
"""The indices of the examples of a batch."""


class Learner:
    """What one sampler's ordering has learned. This one learns nothing, as most orderings; a subclass may.

    The sampler calls `begin_epoch`, then `checked` and `learn` for every step, then `end_epoch`.

    Args:
        ordering: the rule that it learns for.
    """

    def __init__(self, ordering: object) -> None:
        self._ordering = ordering

    def order(self) -> torch.Tensor | None:
        """The last order that was learned, a permutation, if any."""
        return None

    def begin_epoch(self) -> None:
        """Forget what was seen of this epoch."""

    def checked(
        self, what: str, gradients: torch.Tensor | None, examples: ExampleIndices, *, is_due: bool
    ) -> torch.Tensor | None:
        """The gradients of these examples, if they can be learned from; changes nothing.

        Args:
            what: how an error calls the gradients.
            gradients: one row for each example; None where the step brought none.
            examples: the examples of the step.
            is_due: whether the epoch is ordered, so that gradients are expected.
        """
        del what, examples, is_due
        if gradients is not None:
            raise ValueError(f"gradients must not be given with {self._ordering}, which does not learn from them")
        return None

    def learn(self, examples: ExampleIndices, gradients: torch.Tensor | None) -> None:
        """See the gradients of the next examples, as `checked` gave them."""

    def end_epoch(self, epoch: int, num_planned: int, *, is_due: bool) -> None:
        """Another epoch begins: learn the next order, if all of this one was seen.

        Args:
            epoch: the one that ends.
            num_planned: the examples that it was to visit.
            is_due: whether it was begun and ordered, so that gradients were expected.
        """

    def state(self) -> dict[str, torch.Tensor | int]:
        """Everything, as plain tensors and numbers."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take what `state` gave; nothing at all means that nothing was learned."""

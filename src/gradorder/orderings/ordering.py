"""What every ordering is: a frozen rule from scores to a permutation."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, final

import torch

from gradorder import checks


class Learner(Protocol):
    """What an ordering that learns from gradients keeps for one sampler. Orders are complete permutations."""

    @property
    def num_learned(self) -> int:
        """Examples whose gradients were seen in this epoch."""

    def begin_epoch(self) -> None:
        """Forget what was seen of this epoch."""

    def checked(self, what: str, gradients: object, examples: torch.Tensor) -> torch.Tensor:
        """The gradients of these examples, if they can be learned from; changes nothing."""

    def learn(self, examples: torch.Tensor, gradients: torch.Tensor) -> None:
        """See the gradients of the next examples, as `checked` gave them."""

    def end_epoch(self) -> None:
        """All of this epoch was seen: the next order is learned, and another epoch begins."""

    def order(self) -> torch.Tensor | None:
        """The last order that was learned, if any."""

    def state(self) -> dict[str, torch.Tensor | int]:
        """Everything, as plain tensors and numbers."""

    def load(self, state: Mapping[str, Any]) -> None:
        """Take what `state` gave; nothing at all means that nothing was learned."""


@dataclass(frozen=True, eq=False)
class Made:
    """How the order of an epoch was made: all that its weights may depend on.

    Args:
        scores: those that made it.
        epoch: the epoch.
        generator: in the state in which the order was drawn, so that its noise can be drawn again.
        num_examples: N.
        classes: the class of every example as a whole number, where each class kept its own first part.
        candidates: which of the N examples the kept ones were chosen from, as booleans; all if not given.
    """

    scores: torch.Tensor | None
    epoch: int
    generator: torch.Generator
    num_examples: int
    classes: torch.Tensor | None = None
    candidates: torch.Tensor | None = None


class Ordering(ABC):
    """A rule from scores to an order. Every subclass is final, a frozen dataclass, and holds no state.

    `ordering(scores, epoch=..., generator=...)` returns a permutation of `range(N)` as a LongTensor. Equal
    scores keep the order of their indices. Randomness comes from the generator alone.

    To write one of your own, subclass this, decorate with `@dataclass(frozen=True)`, say whether it
    `needs_scores`, and implement `_order`. If its examples are to be weighted, say that it `is_weighted` and
    implement `weights`.
    """

    with_replacement: ClassVar[bool] = False
    """Whether the order may name an example more than once; labels and keep are refused then."""

    @property
    def is_weighted(self) -> bool:
        """Whether `weights` gives weights; if not, all are 1 and nothing is stored."""
        return False

    @property
    def learns(self) -> bool:
        """Whether orders come from a `learner`; several processes, labels, keep and wrappers are refused then."""
        return False

    def learner(self, num_examples: int) -> Learner | None:
        """A new learner for one sampler; None where there is nothing to learn."""
        del num_examples
        return None

    @property
    def prunes(self) -> bool:
        """Whether the order may leave examples out, how many being known only when it is made; keep is refused then."""
        return False

    @property
    def least_keep(self) -> float:
        """The smallest fraction `keep` with which the ordering does what it promises."""
        return 0.0

    @property
    @abstractmethod
    def needs_scores(self) -> bool:
        """Whether the order depends on scores; if not, `num_examples` serves instead."""

    @abstractmethod
    def _order(self, scores: torch.Tensor, num_examples: int, epoch: int, generator: torch.Generator) -> torch.Tensor:
        """The order; `scores` is finite and of the right length, or empty where none are needed."""

    def _order_in_classes(
        self,
        scores: torch.Tensor,
        num_examples: int,
        epoch: int,
        generator: torch.Generator,
        classes: torch.Tensor | None,
    ) -> torch.Tensor:
        """The order where each class keeps its own first part; for the few orderings to which that matters."""
        del classes
        return self._order(scores, num_examples, epoch, generator)

    def noise_epoch(self, epoch: int) -> int:
        """The epoch whose random numbers this epoch uses."""
        return epoch

    def scores_epoch(self, epoch: int) -> int:
        """The epoch whose scores this epoch uses."""
        return epoch

    def reverses(self, epoch: int) -> bool:
        """Whether this epoch plays its order backwards, so that what is kept lies at the end of it."""
        del epoch
        return False

    def weights(self, kept: torch.Tensor, made: Made) -> torch.Tensor | None:
        """The weight of each kept example, or None where all are 1.

        Args:
            kept: the examples of the epoch, in the order before any reversal.
            made: how their order was made.
        """
        del kept, made
        return None

    @final
    def __call__(
        self,
        scores: torch.Tensor | None,
        *,
        epoch: int,
        generator: torch.Generator,
        num_examples: int | None = None,
        classes: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The order of this epoch.

        Args:
            scores: one number per example; None where none are needed.
            epoch: 0, 1, 2, ...
            generator: of all randomness.
            num_examples: N, where there are no scores.
            classes: the class of every example as a whole number, where each class keeps its own first part.

        Raises:
            NonFiniteScoresError: some scores are NaN or infinite.
            ValueError: the scores are missing, of the wrong length, or not one number per example.
        """
        checks.integer("epoch", epoch, minimum=0)
        if num_examples is not None:
            checks.integer("num_examples", num_examples, minimum=1)
        if scores is not None:
            scores = checks.finite_scores(scores, num_examples)
            return self._order_in_classes(scores, len(scores), epoch, generator, classes)
        if self.needs_scores:
            raise ValueError(f"scores must be given: {self} orders by them, got None")
        if num_examples is None:
            raise ValueError("num_examples must be given where scores is None")
        return self._order_in_classes(torch.empty(0), num_examples, epoch, generator, classes)

"""Without scores: random reshuffling, one shuffle for the whole run, and the order of the data set."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder.orderings.ordering import Ordering


@final
@dataclass(frozen=True)
class Shuffled(Ordering):
    """A new random permutation every epoch: random reshuffling, what `shuffle=True` does."""

    needs_scores: ClassVar[bool] = False

    def _order(self, scores: torch.Tensor, num_examples: int, epoch: int, generator: torch.Generator) -> torch.Tensor:
        del scores, epoch
        return torch.randperm(num_examples, generator=generator, device=generator.device)


@final
@dataclass(frozen=True)
class ShuffledOnce(Ordering):
    """One random permutation for the whole run."""

    needs_scores: ClassVar[bool] = False

    def noise_epoch(self, epoch: int) -> int:
        """Always 0: every epoch draws the same random numbers."""
        del epoch
        return 0

    def _order(self, scores: torch.Tensor, num_examples: int, epoch: int, generator: torch.Generator) -> torch.Tensor:
        del scores, epoch
        return torch.randperm(num_examples, generator=generator, device=generator.device)


@final
@dataclass(frozen=True)
class Sequential(Ordering):
    """The order of the data set: incremental gradient."""

    needs_scores: ClassVar[bool] = False

    def _order(self, scores: torch.Tensor, num_examples: int, epoch: int, generator: torch.Generator) -> torch.Tensor:
        del scores, epoch, generator
        return torch.arange(num_examples)

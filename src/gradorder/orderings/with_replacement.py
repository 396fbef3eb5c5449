"""Independent draws: what most theory of SGD assumes, and no loader does."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder.orderings.ordering import Ordering


@final
@dataclass(frozen=True)
class WithReplacement(Ordering):
    """N independent uniform draws each epoch: about 37% of the examples are left out, others come more than once.

    Rule: sigma(1), ..., sigma(N) independent, each uniform on 0..N-1.

    Cost: N random numbers per epoch.

    Reference: Robbins and Monro (1951), A Stochastic Approximation Method.
    """

    needs_scores: ClassVar[bool] = False
    with_replacement: ClassVar[bool] = True

    def _order(self, scores: torch.Tensor, num_examples: int, epoch: int, generator: torch.Generator) -> torch.Tensor:
        del scores, epoch
        return torch.randint(num_examples, (num_examples,), generator=generator, device=generator.device)

"""WithReplacement: independent uniform draws, as most theory of SGD assumes."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder.orderings.ordering import Order, Ordering, OrderingRun, Request


@final
@dataclass(frozen=True)
class WithReplacement(Ordering):
    """Draw N examples uniformly with replacement: an epoch skips about 37% of them and repeats others.

    Rule: sigma(1), ..., sigma(N) independent, each uniform on 0..N-1.

    When: for comparison with theory that assumes independent draws.

    Helps, theory: comparison with theory that assumes independent draws.

    Hurts, theory: an epoch skips more than a third of the examples; reshuffling converges faster on smooth, strongly
    convex problems (Mishchenko et al. 2020).

    Cost: N random numbers per epoch.

    Reference: Robbins and Monro (1951), A Stochastic Approximation Method.
    """

    needs_scores: ClassVar[bool] = False

    def order(self, request: Request) -> Order:
        """Return N independent draws."""
        size, generator = request.num_examples, request.generator
        return Order(torch.randint(size, (size,), generator=generator, device=generator.device), repeats=True)

    def start(self, request: Request) -> OrderingRun:
        """Start a run without labels and without `keep`, which have no meaning for draws with replacement."""
        if request.classes is not None or request.keep is not None:
            raise ValueError(f"labels and keep must not be given with {self}, which draws with replacement")
        return OrderingRun(self)

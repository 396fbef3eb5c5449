"""OrderDP: draw a pool of examples and train on the largest losses in it."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings import Order, Ordering, OrderingRun, Request
from gradorder.orderings.ordering import checked_order
from gradorder_lab.published.request import is_known, permutation, refuse_keep, share


@final
@dataclass(frozen=True)
class OrderDP(Ordering):
    """Draw a pool of s examples and visit the q of them with the largest last losses, in random order.

    Rule: the pool is drawn uniformly without replacement in every epoch. Only visited examples refresh their loss. At
    the start all losses are equal, so the first epoch visits q random examples. There are no weights.

    Constants: s = 0.5 n and q = 0.6 s. So every epoch visits 0.3 n examples. (The paper's CIFAR script has 0.8 and
    0.375, which is 0.3 n as well.)

    Cost: one permutation and one sort of the pool per epoch. There is no extra forward pass.

    Differs from the paper: the formula does not give the value of the equal first losses. Here an example that was
    never visited has the largest loss, so an example of the pool is visited for the first time as soon as possible.

    Reference: OrderDP (ICLR 2026).

    Args:
        pool: s / n, in (0, 1].
        kept: q / s, in (0, 1].
    """

    needs_scores: ClassVar[bool] = True
    pool: float = 0.5
    kept: float = 0.6

    def __post_init__(self) -> None:
        checks.fraction("pool", self.pool)
        checks.fraction("kept", self.kept)

    def order(self, request: Request) -> Order:
        """Return the largest losses of the pool in random order; examples that were never visited come first."""
        pool = permutation(request)[: share(self.pool, request.num_examples)]
        losses = torch.zeros(request.num_examples) if request.scores is None else request.scores.cpu()
        ranked = losses.masked_fill(~is_known(request), inf)[pool]
        largest = ranked.argsort(descending=True, stable=True)[: share(self.kept, len(pool))]
        return Order(request.kept(pool[largest.sort().values]))  # sorted: back in the random order of the pool

    def start(self, request: Request) -> OrderingRun:
        """Start a run whose first epoch needs no losses."""
        refuse_keep(self, request)
        return _Run(self, prunes=True)


class _Run(OrderingRun):
    """Orders also the first epoch, in which all losses are equal."""

    def order(self, request: Request) -> Order:
        return checked_order(self.rule, request, self.rule.order(request))

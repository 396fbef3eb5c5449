"""KAKURENBO: hide the examples with the smallest losses that are predicted right with confidence."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings import Order, Ordering, OrderingRun, Request
from gradorder_lab.published.request import is_known, permutation, refuse_keep

_STAGES = ((0.0, 1.0), (0.3, 0.8), (0.6, 0.6), (0.8, 0.4))
"""From this part of the run on, the largest hidden fraction is multiplied by this factor."""


@final
@dataclass(frozen=True)
class Kakurenbo(Ordering):
    """Hide examples with small losses that are predicted right with confidence, and raise the learning rate.

    Rule: the F_e n examples with the smallest losses are candidates. Candidates whose class is predicted with a
    probability of at least tau are hidden; for the cross-entropy that is a loss of at most -ln(tau). (With tau above
    one half, such a class is the predicted one.) The learning rate of the epoch is multiplied by 1 / (1 - F_e). There
    are no weights. Hidden examples are evaluated in every epoch.

    Constants: tau = 0.7 and F_e = 0.3 times 1, 0.8, 0.6 and 0.4.

    Cost: one forward pass over the hidden examples per epoch, one permutation and one sort.

    Differs from the paper: F_e decreases at 30%, 60% and 80% of the run, because our schedule is a cosine without the
    milestones at which it decreases in the paper. Epoch 0 has no losses: it hides nothing, and F_0 is 0. The
    probability is the softmax over the classes of one example. The losses of visited examples are those of their
    training step, and the losses of hidden ones are computed after the epoch, in eval mode and without augmentation.

    Reference: KAKURENBO (2023).

    Args:
        epochs: the number of epochs of the run.
        fraction: the largest F_e, in (0, 1).
        confidence: tau, in (0.5, 1).
    """

    needs_scores: ClassVar[bool] = True
    epochs: int
    fraction: float = 0.3
    confidence: float = 0.7

    def __post_init__(self) -> None:
        checks.integer("epochs", self.epochs, minimum=1)
        if not checks.is_number(self.fraction) or not 0 < self.fraction < 1:
            raise ValueError(f"fraction must be in (0, 1), got {self.fraction!r}")
        if not checks.is_number(self.confidence) or not 0.5 < self.confidence < 1:  # noqa: PLR2004 - one half
            raise ValueError(f"confidence must be in (0.5, 1), got {self.confidence!r}")

    def hidden_fraction(self, epoch: int) -> float:
        """Return F_e, the largest fraction that this epoch hides."""
        if epoch == 0:
            return 0.0
        return self.fraction * [factor for begin, factor in _STAGES if epoch / self.epochs >= begin][-1]

    def learning_rate_factor(self, epoch: int) -> float:
        """Return the factor of the learning rate in this epoch."""
        return 1 / (1 - self.hidden_fraction(epoch))

    def order(self, request: Request) -> Order:
        """Return the examples that are not hidden, in random order."""
        order, losses = request.kept(permutation(request)), request.required_scores.cpu()
        # Rounded down, so that an epoch is never empty; 1e-9: 9 where the product is 8.999999999999998.
        num_candidates = int(self.hidden_fraction(request.epoch) * request.num_examples + 1e-9)
        is_hidden = torch.zeros(request.num_examples, dtype=torch.bool)
        is_hidden[losses.argsort(stable=True)[:num_candidates]] = True
        is_hidden &= (losses <= -math.log(self.confidence)) & is_known(request)
        return Order(order[~is_hidden[order]])

    def start(self, request: Request) -> OrderingRun:
        """Start a run whose epochs differ in length."""
        refuse_keep(self, request)
        return OrderingRun(self, prunes=True)

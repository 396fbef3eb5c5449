"""Undecided: what is learned and what looks wrong come later than what the model has not made up its mind about."""

from dataclasses import dataclass, replace
from typing import final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Request, Wrapping


@final
@dataclass(frozen=True)
class Undecided(Wrapping):
    """The inner order, by how undecided the model is about an example instead of by the example's loss.

    Rule: the inner ordering sees doubt_i = (1 - p_i)(p_i + floor) with p_i = exp(-loss_i).

    For the cross-entropy p is the probability that the model gives to the label. A learned example (p near 1) has no
    doubt, as by its loss. But doubt is largest where p is about 1/2 and falls again to `floor` where the model is sure
    that the label is wrong: a wrong label has the largest loss of all for as long as the model is right, and ordering
    by the loss would show it in every epoch. With `floor` at 1 or more doubt grows with the loss, up to floor.

    The scores must be losses, not below zero, on the scale of a negative log-likelihood; those of another scale do no
    harm: where all are much larger than 1 all doubts are alike, where all are much smaller they follow the losses. With
    label smoothing give the losses without it: the smoothed loss of a learned example looks like doubt.

    It helps where scores are losses remembered from training, and labels may be wrong.

    Helps, measured: with 20% wrong labels `go.recommended(budget=0.5)` was ahead of random reshuffling at equal
    gradients, where draws by the loss itself were behind it.

    Hurts, theory: a hard example that is right looks like one that is wrong until it is learned, and comes less often;
    losses that are no log-likelihoods have no p, and at another scale its order says less.

    Cost: the inner ordering's, and N exponentials per epoch.

    Reference: none known to us for this form; p (1 - p) as a chance to be drawn: Chang, Learned-Miller and McCallum
    (2017), Active Bias.

    Args:
        inner: the ordering by doubt; it needs scores.
        floor: the doubt about a hopeless example; positive. At most, doubt is (1 + floor)^2 / 4. With 0.1 a hopeless
            example counts a third of the most doubtful: seldom enough to keep wrong labels out, and often enough to
            notice when a hard one is learned after all.
    """

    floor: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.inner.needs_scores:
            raise ValueError(f"inner must order by scores, got {self.inner}")
        if not checks.is_number(self.floor) or not 0 < self.floor < float("inf"):
            raise ValueError(f"floor must be positive and finite, got {self.floor!r}")

    def order(self, request: Request) -> Order:
        """The inner ordering's, by doubt."""
        return self.inner.order(replace(request, scores=self._doubts(request.required_scores)))

    def _doubts(self, losses: torch.Tensor) -> torch.Tensor:
        checks.not_negative(losses, "Undecided")
        exact = losses.double()
        return -torch.expm1(-exact) * (torch.exp(-exact) + self.floor)

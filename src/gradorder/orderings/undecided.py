"""Undecided: prefer examples that the model neither fits yet nor contradicts with high confidence."""

from dataclasses import dataclass, replace
from typing import final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Request, Wrapping


@final
@dataclass(frozen=True)
class Undecided(Wrapping):
    """Order by how undecided the model is about an example, instead of by its loss.

    Rule: the inner ordering sees doubt_i = (1 - p_i)(p_i + floor) with p_i = exp(-loss_i).

    For the cross-entropy, p is the probability that the model assigns to the label. A fitted example (p near 1) has
    doubt near zero. Doubt is largest if p is about 1/2, and falls to `floor` if the model is confident that the label
    is wrong. An ordering by loss would instead put such noisy labels first in every epoch, because they have the
    largest losses. With `floor` at 1 or more, doubt grows with the loss, up to floor.

    The scores must be losses that are not negative, on the scale of a negative log-likelihood. Losses on another scale
    do no harm: if all are much larger than 1, all doubts are nearly equal; if all are much smaller, the doubts follow
    the losses. With label smoothing, pass the unsmoothed losses: the smoothed loss of a fitted example looks like
    doubt.

    It is meant for losses remembered from training, if labels may be noisy.

    Needs: losses that are not negative, as scores.

    When: labels may be noisy, and the scores are cross-entropy losses.

    Helps, measured: with 20% noisy labels `go.recommended(budget=0.5)` was ahead of random reshuffling at equal
    gradients, while drawing by the loss itself was behind it.

    Hurts, theory: until it is fitted, a hard example with a correct label looks like a noisy label and comes less
    often. Losses that are not log-likelihoods have no p, and on another scale the order is less informative.

    Cost: the cost of the inner ordering, and N exponentials per epoch.

    Reference: none known to us for this form; p (1 - p) as a sampling probability: Chang, Learned-Miller and McCallum
    (2017), Active Bias.

    Args:
        inner: the ordering by doubt; it must need scores.
        floor: the doubt of an example with p = 0; positive. The largest doubt is (1 + floor)^2 / 4. With 0.1, an
            example with p = 0 has a third of the largest doubt: low enough to visit noisy labels rarely, and high
            enough to notice when a hard example is fitted after all.
    """

    floor: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.inner.needs_scores:
            raise ValueError(f"inner must order by scores, got {self.inner}")
        if not checks.is_number(self.floor) or not 0 < self.floor < float("inf"):
            raise ValueError(f"floor must be positive and finite, got {self.floor!r}")

    def order(self, request: Request) -> Order:
        """Return the inner order by doubt."""
        return self.inner.order(replace(request, scores=self._doubts(request.required_scores)))

    def _doubts(self, losses: torch.Tensor) -> torch.Tensor:
        checks.not_negative(losses, "Undecided")
        exact = losses.double()
        return -torch.expm1(-exact) * (torch.exp(-exact) + self.floor)

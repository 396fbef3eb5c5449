"""Unlearned: random reshuffling that skips most examples that the model already fits."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, OrderingRun, Request

_LARGE, _VERY_LARGE = math.log(2), math.log(10)
"""The cross-entropy if the label has the probability 1/2, and if it has 1/10."""

_NOISY_EVERY = 3


@final
@dataclass(frozen=True)
class Unlearned(Ordering):
    """Shuffle the examples, and skip most of those that the model already fits or whose labels look noisy.

    Rule: with m the mean loss, an example is fitted if its loss is below min(-log(probability), share * m). Every epoch
    visits one of `every` fixed parts of the fitted examples and one third of the examples with labels that look noisy,
    different ones each epoch, and all other examples. It visits them in the order of random reshuffling.

    A label looks noisy if its loss is above log 10, that is, if it has a probability below 1/10. This part of the rule
    is active only if the losses are bimodal, as they are with noisy labels: at most half of all losses are above log 2,
    at least a third of those are above log 10, and so are at least a twentieth of all losses. On clean data, most
    losses above log 2 are close to it.

    An epoch is as short as the data allows. If no example is fitted, the order is exactly that of random reshuffling.
    For the cross-entropy, -log(probability) is the loss of a label with this probability. The bound by the mean works
    for losses of any kind and scale. If some losses are negative, a small loss does not mean that an example is fitted,
    so no example counts as fitted. Every example is visited at least once in any `every` consecutive epochs. The number
    of steps of an epoch is known only when it is planned, so let the learning rate follow `sampler.progress`
    (`go.ProgressLR`).

    It is meant for losses remembered from training, in runs that fit many examples before they end. With label
    smoothing, pass the unsmoothed losses: the smoothed loss of a fitted example is not small.

    Helps, theory: a fitted example has a small gradient: (1 - p) bounds the gradient of the cross-entropy at the
    logits.

    Hurts, theory: the model may forget fitted examples until their next turn. If many labels are noisy, a hard example
    with a correct label looks noisy too.

    Cost: one permutation and three comparisons of N per epoch; the last losses of all examples are stored.

    Reference: none known to us for this form; examples that are never forgotten once learned: Toneva, Sordoni,
    Tachet des Combes et al. (2019), An Empirical Study of Example Forgetting during Deep Neural Network Learning.

    Args:
        probability: the label of a fitted example has more than this probability, in (0, 1).
        share: the loss of a fitted example is below this share of the mean loss, in (0, 1).
        every: the number of parts, at least 2. docs/comparison.md lists the other values that were tried.
    """

    needs_scores: ClassVar[bool] = True
    probability: float = 0.85
    share: float = 0.25
    every: int = 4

    def __post_init__(self) -> None:
        for name in ("probability", "share"):
            value = getattr(self, name)
            if not checks.is_number(value) or not 0 < value < 1:
                raise ValueError(f"{name} must be in (0, 1), got {value!r}")
        checks.integer("every", self.every, minimum=2)

    def order(self, request: Request) -> Order:
        """Return a new permutation without the skipped examples."""
        generator, losses = request.generator, request.required_scores
        order = torch.randperm(request.num_examples, generator=generator, device=generator.device).to(losses.device)
        is_skipped = self._is_skipped(request)
        # index_select: a quarter of the time of is_skipped[order]
        is_visited = ~is_skipped.index_select(0, order)
        num_unskipped = int(is_visited.sum())
        num_visited = request.trainable(num_unskipped)
        if num_visited > num_unskipped:  # fill the last batch with skipped examples
            is_visited[(~is_visited).nonzero().flatten()[: num_visited - num_unskipped]] = True
        elif num_visited < num_unskipped:  # drop examples at the end, except those whose turn it is
            is_free = is_visited & ~request.in_turn(self.every).to(order.device).index_select(0, order)
            is_visited[is_free.nonzero().flatten()[num_visited - num_unskipped :]] = False
        return Order(request.kept(order[is_visited]))

    def start(self, request: Request) -> OrderingRun:
        """Start a run whose epochs differ in length."""
        if request.keep is not None:
            raise ValueError(f"keep must not be given with {self}, which itself decides how many examples to visit")
        return OrderingRun(self, prunes=True)

    def _is_skipped(self, request: Request) -> torch.Tensor:
        """Mark the examples that this epoch skips; examples that were never scored are visited."""
        losses = request.required_scores
        scored = slice(None) if request.known is None else request.known.to(losses.device)
        is_skipped = torch.zeros_like(losses, dtype=torch.bool)
        if len(losses[scored]) == 0:
            return is_skipped
        is_fitted = self._is_fitted(losses[scored])
        if is_fitted.any():
            is_noisy = _looks_noisy(losses[scored])
            if is_noisy.any():
                is_skipped[scored] = is_noisy
                is_skipped &= ~request.in_turn(_NOISY_EVERY).to(losses.device)
            is_skipped[scored] |= is_fitted
            is_skipped &= ~request.in_turn(self.every).to(losses.device)
        # An epoch must not be empty: with fewer examples than `every`, some epochs are the turn of no example.
        return torch.zeros_like(is_skipped) if is_skipped.all() else is_skipped

    def _is_fitted(self, losses: torch.Tensor) -> torch.Tensor:
        lowest, mean = float(losses.min()), float(losses.double().mean())
        if lowest < 0:  # then a small loss does not mean that an example is fitted
            return torch.zeros_like(losses, dtype=torch.bool)
        # Strictly below, so that the largest loss never counts as fitted, even if all losses are zero.
        return losses < min(-math.log(self.probability), self.share * mean)


def _looks_noisy(losses: torch.Tensor) -> torch.Tensor:
    is_very_large = losses > _VERY_LARGE
    num_very_large, num_large = int(is_very_large.sum()), int((losses > _LARGE).sum())
    is_bimodal = num_large <= len(losses) / 2 and num_very_large >= max(num_large / 3, len(losses) / 20)
    return is_very_large if is_bimodal else torch.zeros_like(is_very_large)

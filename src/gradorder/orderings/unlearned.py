"""Unlearned: random reshuffling of what is still to be learned."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, OrderingRun, Request

_OFF, _FAR_OFF = math.log(2), math.log(10)
"""The cross-entropy of a label with half of the probability, and with a tenth of it."""

_WRONG_EVERY = 3


@final
@dataclass(frozen=True)
class Unlearned(Ordering):
    """A random permutation of the examples, without most of those that are learned or look wrong.

    Rule: with m the mean loss, an example is learned if its loss is below min(-log(probability), share * m). Of what is
    learned, an epoch visits one of `every` fixed parts, another each epoch; of what looks wrong, a third, another each
    epoch; and all others. It visits them in the order in which random reshuffling would.

    An example looks wrong if its loss is above log 10, the label having less than a tenth of the probability; but only
    if labels are wrong at all, so that losses fall into two groups: at most half of them are above log 2, and of these
    at least a third, and a twentieth of all, above log 10. Of clean data, most of what is not right is close.

    So an epoch is as short as the data allows, and where nothing is learned it is random reshuffling, to the bit. For
    the cross-entropy, -log(probability) is the loss of a label that has this probability. The bound by the mean holds
    for losses of any kind and scale: what is learned has a small part of the loss that is left. Where some losses are
    negative, none is small, and nothing is learned. Every example is visited at least once in any `every` consecutive
    epochs. How many steps an epoch has is known when it is planned: let step sizes follow `sampler.progress`
    (`go.ProgressLR`).

    It helps where scores are losses remembered from training, and much is learned before the run ends. With label
    smoothing give the losses without it: the smoothed loss of a learned example is not small.

    Helps, theory: a learned example has a small gradient: (1 - p) bounds that of the cross-entropy at the logits.

    Hurts, theory: what is learned is not held on to until its turn comes, and a hard example that is right looks like
    one that is wrong, where many are.

    Cost: one permutation and three comparisons of N per epoch; the last losses of all examples are kept.

    Reference: none known to us for this form; examples that are learned once and for all: Toneva, Sordoni, Tachet des
    Combes et al. (2019), An Empirical Study of Example Forgetting during Deep Neural Network Learning.

    Args:
        probability: of the label of a learned example, in (0, 1).
        share: of the mean loss, of which a learned example has less, in (0, 1).
        every: the number of parts, at least 2. What was tried beside these three numbers, and what came of it, is in
            docs/comparison.md.
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
        """What stays of a new permutation."""
        generator, losses = request.generator, request.required_scores
        order = torch.randperm(request.num_examples, generator=generator, device=generator.device).to(losses.device)
        stays = self._stays(request.epoch, losses, request.known)
        # index_select: a quarter of the time of stays[order]
        return Order(request.kept(order[stays.index_select(0, order)]))

    def start(self, request: Request) -> OrderingRun:
        """Start a run whose epochs are as long as the losses say."""
        if request.keep is not None:
            raise ValueError(f"keep must not be given with {self}, which decides by itself how many examples to visit")
        return OrderingRun(self, prunes=True)

    def _stays(self, epoch: int, losses: torch.Tensor, known: torch.Tensor | None) -> torch.Tensor:
        """Whether each example is visited; what was never scored is."""
        scored = slice(None) if known is None else known.to(losses.device)
        waits = torch.zeros_like(losses, dtype=torch.bool)
        is_learned = self._is_learned(losses[scored])
        if is_learned.any():
            waits[scored] = _looks_wrong(losses[scored])
            waits[epoch % _WRONG_EVERY :: _WRONG_EVERY] = False
            waits[scored] |= is_learned
            waits[epoch % self.every :: self.every] = False
        # No epoch is empty: of fewer examples than `every`, none may come back in this one.
        return torch.ones_like(waits) if waits.all() else ~waits

    def _is_learned(self, losses: torch.Tensor) -> torch.Tensor:
        lowest, mean = float(losses.min()), float(losses.double().mean())
        if lowest < 0:  # there is no zero below which none can fall: no loss is small
            return torch.zeros_like(losses, dtype=torch.bool)
        # Less, not at most: the largest loss is never learned, also where all are zero.
        return losses < min(-math.log(self.probability), self.share * mean)


def _looks_wrong(losses: torch.Tensor) -> torch.Tensor:
    is_far_off = losses > _FAR_OFF
    num_far_off, num_off = int(is_far_off.sum()), int((losses > _OFF).sum())
    are_labels_wrong = num_off <= len(losses) / 2 and num_far_off >= max(num_off / 3, len(losses) / 20)
    return is_far_off if are_labels_wrong else torch.zeros_like(is_far_off)

"""Unlearned: random reshuffling of what is not learned yet."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, Request
from gradorder.parts import part_of

_LEAST = 0.2
"""The part of the examples that an epoch visits at least: the hardest, where fewer are not learned."""


@final
@dataclass(frozen=True)
class Unlearned(Ordering):
    """A random permutation of the examples, without those that are learned.

    Rule: an example is learned if its loss is at most min(-log(probability), share * mean loss). An epoch visits the
    examples that are not learned, one of `every` fixed parts of the others, another each epoch, and at least a fifth
    of all, the hardest; in the order in which random reshuffling would visit them.

    So an epoch is as short as the data allows, and where nothing is learned it is random reshuffling, to the bit. For
    the cross-entropy, the first bound says that the label had this probability when the example was seen last. The
    second holds for losses of any kind and scale: what is learned has a small part of the loss that is left. Where some
    losses are negative, none is small, and nothing is learned. Every example is visited at least once in any `every`
    consecutive epochs. How many steps an epoch has is known when it is
    planned: let step sizes follow `sampler.progress` (`go.ProgressLR`).

    It helps where scores are losses remembered from training, and much is learned before the run ends. With label
    smoothing give the losses without it: the smoothed loss of a learned example is not small.

    Helps, theory: a learned example has a small gradient: (1 - p) bounds that of the cross-entropy at the logits.

    Hurts, theory: what is learned is not held on to until its turn comes, and the mean loss of an epoch is no longer
    that of the data set.

    Cost: one permutation and one comparison of N per epoch; the last losses of all examples are kept.

    Reference: none known to us for this form; examples that are learned once and for all: Toneva, Sordoni, Tachet des
    Combes et al. (2019), An Empirical Study of Example Forgetting during Deep Neural Network Learning.

    Args:
        probability: of the label of a learned example, in (0, 1).
        share: of the mean loss that a learned example has at most, in (0, 1).
        every: the number of parts, at least 2.
    """

    needs_scores: ClassVar[bool] = True
    probability: float = 0.9
    share: float = 0.35
    every: int = 8

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
        stays = self._is_unlearned(losses, request.known)
        stays[request.epoch % self.every :: self.every] = True
        return Order(request.kept(order[stays[order]]))

    def num_kept(self, request: Request) -> int | None:
        """Only the losses can tell."""
        if request.keep is not None:
            raise ValueError(f"keep must not be given with {self}, which decides by itself what to leave out")
        return None

    def _is_unlearned(self, losses: torch.Tensor, known: torch.Tensor | None) -> torch.Tensor:
        """Whether each example is to be visited whoever's turn it is; what was never scored is."""
        if known is None:
            return self._is_hard(losses)
        is_unlearned = ~known.to(losses.device)
        is_unlearned[~is_unlearned] = self._is_hard(losses[~is_unlearned])
        return is_unlearned

    def _is_hard(self, losses: torch.Tensor) -> torch.Tensor:
        """Which losses are those of examples that are not learned, and the largest fifth at least."""
        lowest, mean = float(losses.min()), float(losses.double().mean())
        if lowest < 0:  # there is no zero below which none can fall: no loss is small
            return torch.ones_like(losses, dtype=torch.bool)
        is_hard = losses > min(-math.log(self.probability), self.share * mean)
        num_least = part_of(_LEAST, len(losses))
        return is_hard if int(is_hard.sum()) >= num_least else losses >= losses.topk(num_least).values[-1]

"""InfoBatch: skip a random part of the easy examples each epoch, and increase the weights of the others."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, OrderingRun, Request


@final
@dataclass(frozen=True)
class InfoBatch(Ordering):
    """Shuffle the examples and skip a random part of those with a score below the mean.

    Rule: with m the mean score, let L be the examples with score_i < m. Exactly floor((1 - ratio) |L|) of them are
    drawn without replacement and visited with weight 1 / (1 - ratio); all other examples are visited with weight 1. So
    the expected weighted sum over an epoch is the sum over all examples, up to that rounding. In the last
    ceil(complete_part * epochs) epochs, and after them, no example is skipped and all weights are 1.

    The scores should be losses remembered from training: call `sampler.step(losses)` with the unweighted losses.
    Examples that were never scored are visited, and come first. The length of an epoch is known only when it is
    planned: `num_steps` raises for later epochs, and several processes need `drop_last`. `keep` is not supported. With
    labels, the batches are stratified over the visited examples. Inside FlipFlop an odd epoch visits the examples of
    the even epoch before it, even if the complete epochs start with the odd one.

    When: skipping must not bias the mean gradient. Train on `sampler.weigh(losses).mean()`.

    Helps, theory: saves part of an epoch without biasing the mean gradient.

    Hurts, theory: the number of steps is not known in advance; weights above one make the steps noisier.

    Cost: one permutation per epoch; the last losses of all examples are stored.

    Reference: Qin, Wang, Zheng et al. (2024), InfoBatch: Lossless Training Speed Up by Unbiased Dynamic Data Pruning.

    Args:
        epochs: the number of epochs of the run.
        ratio: the fraction of the easy examples to skip, in (0, 1); 0.5 in the reference.
        complete_part: the fraction of epochs at the end that visit all examples, in [0, 1]; 0.125 in the reference.
    """

    needs_scores: ClassVar[bool] = True
    epochs: int
    ratio: float = 0.5
    complete_part: float = 0.125

    def __post_init__(self) -> None:
        checks.integer("epochs", self.epochs, minimum=1)
        if not checks.is_number(self.ratio) or not 0 < self.ratio < 1:
            raise ValueError(f"ratio must be in (0, 1), got {self.ratio!r}")
        if not checks.is_number(self.complete_part) or not 0 <= self.complete_part <= 1:
            raise ValueError(f"complete_part must be in [0, 1], got {self.complete_part!r}")

    def _is_complete(self, epoch: int) -> bool:
        num_complete = checks.part_of(self.complete_part, self.epochs) if self.complete_part else 0
        return epoch >= self.epochs - num_complete

    def order(self, request: Request) -> Order:
        """Return the visited examples in random order, with their weights."""
        generator, scores = request.generator, request.required_scores
        order = torch.randperm(request.num_examples, generator=generator, device=generator.device).to(scores.device)
        if self._is_complete(request.epoch):
            return Order(request.kept(order))
        is_low = _is_low(scores, request.known)
        low = order[is_low[order]]
        stays = ~is_low
        # The order is random, so its first low examples are a random draw. 1e-9: 0.1 * 10 may be 0.99999999.
        stays[low[: math.floor((1 - self.ratio) * len(low) + 1e-9)]] = True
        kept = request.kept(order[stays[order]])
        return Order(kept, torch.where(is_low[kept], 1 / (1 - self.ratio), 1.0))

    def start(self, request: Request) -> OrderingRun:
        """Start a run whose epochs differ in length."""
        if request.keep is not None:
            raise ValueError(f"keep must not be given with {self}, which itself decides how many examples to visit")
        return OrderingRun(self, prunes=True)


def _is_low(scores: torch.Tensor, known: torch.Tensor | None) -> torch.Tensor:
    """Mark the examples whose score is below the mean of the known scores."""
    values = scores.double()
    is_known = torch.ones_like(values, dtype=torch.bool) if known is None else known.to(scores.device)
    if not bool(is_known.any()):
        return ~torch.ones_like(is_known)
    # If all scores are equal, rounding must not put their mean above them.
    return is_known & (values < torch.minimum(values[is_known].mean(), values[is_known].max()))

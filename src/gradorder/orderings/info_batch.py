"""InfoBatch: some of the easy examples are left out each epoch, and those that stay speak for them."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, OrderingRun, Request


@final
@dataclass(frozen=True)
class InfoBatch(Ordering):
    """Shuffled, without a random part of the examples whose score is below the mean.

    Rule: with m the mean score, example i is left out with probability `ratio` if score_i < m; if such a one stays it
    weighs 1 / (1 - ratio), all others 1. So the weighted sum over an epoch is, on average, the sum over all examples.
    In the last ceil(complete_part * epochs) epochs, and after them, nothing is left out and every weight is 1.

    Meant for losses remembered from training: `sampler.step(losses)` with the losses before weighting. An example
    that was never scored stays, and comes first. How large an epoch is shows only when it is planned: `num_steps`
    refuses later epochs, and several processes need `drop_last`. `keep` is refused. With labels the batches are
    balanced over what stays. Inside FlipFlop an odd epoch has what its even partner had, also where the complete part
    begins with the odd one.

    Helps, theory: saves part of an epoch without a bias of the mean gradient.

    Hurts, theory: the number of steps is not known up front; weights above one make the steps noisier.

    Cost: N random numbers and one permutation per epoch; the last losses of all examples are kept.

    Reference: Qin, Wang, Zheng et al. (2024), InfoBatch: Lossless Training Speed Up by Unbiased Dynamic Data Pruning.

    Args:
        epochs: of the whole run.
        ratio: the chance to be left out, in (0, 1); the reference's is 0.5.
        complete_part: the fraction of the epochs, at the end, that are complete, in [0, 1]; the reference's is 0.125.
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
        """What stays, shuffled."""
        generator, scores = request.generator, request.required_scores
        order = torch.randperm(request.num_examples, generator=generator, device=generator.device).to(scores.device)
        if self._is_complete(request.epoch):
            return Order(request.kept(order))
        draws = torch.rand(request.num_examples, generator=generator, dtype=torch.float64, device=generator.device)
        is_low = _is_low(scores, request.known)
        stays = ~is_low | (draws >= self.ratio).to(scores.device)
        kept = request.kept(order[stays[order]])
        return Order(kept, torch.where(is_low[kept], 1 / (1 - self.ratio), 1.0))

    def start(self, request: Request) -> OrderingRun:
        """Start a run whose epochs are as long as the draws say."""
        if request.keep is not None:
            raise ValueError(f"keep must not be given with {self}, which decides by itself how many examples to visit")
        return OrderingRun(self, prunes=True)



def _is_low(scores: torch.Tensor, known: torch.Tensor | None) -> torch.Tensor:
    """Below the mean of the known; rounding must not put the mean above all scores, where they are equal."""
    values = scores.double()
    is_known = torch.ones_like(values, dtype=torch.bool) if known is None else known.to(scores.device)
    if not bool(is_known.any()):
        return ~torch.ones_like(is_known)
    return is_known & (values < torch.minimum(values[is_known].mean(), values[is_known].max()))

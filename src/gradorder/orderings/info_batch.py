"""InfoBatch: some of the easy examples are left out each epoch, and those that stay speak for them."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Made, Ordering


@final
@dataclass(frozen=True)
class InfoBatch(Ordering):
    """Shuffled, without a random part of the examples whose score is below the mean.

    Rule: with m the mean score, example i is left out with probability `ratio` if score_i < m; if such a one stays it
    weighs 1 / (1 - ratio), all others 1. So the weighted sum over an epoch is, on average, the sum over all examples.
    In the last ceil(complete_part * epochs) epochs, and after them, nothing is left out and every weight is 1.

    Meant for losses remembered from training: `sampler.step(losses)` with the losses before weighting. An example
    never scored counts as hard and stays. The size of an epoch is known only when it is planned, so that
    `num_steps` refuses epochs that are not, and several processes need `drop_last`; `keep` is refused. With labels
    batches are balanced over what stays. Inside FlipFlop an odd epoch has what its even partner had, also where the
    complete part begins with it.

    Cost: N random numbers and one permutation per epoch; the last losses of all examples are kept.

    Reference: Qin, Wang, Zheng et al. (2024), InfoBatch: Lossless Training Speed Up by Unbiased Dynamic Data Pruning.

    Args:
        epochs: of the whole run.
        ratio: the chance to be left out, in (0, 1).
        complete_part: the fraction of the epochs, at the end, that are complete, in [0, 1].
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

    @property
    def is_weighted(self) -> bool:
        """Always, but for the last epochs."""
        return True

    @property
    def prunes(self) -> bool:
        """Always, but for the last epochs."""
        return True

    def _is_complete(self, epoch: int) -> bool:
        num_complete = math.ceil(round(self.complete_part * self.epochs, 9))  # 0.1 * 3 is a little more than 0.3
        return epoch >= self.epochs - num_complete

    def _order(self, scores: torch.Tensor, num_examples: int, epoch: int, generator: torch.Generator) -> torch.Tensor:
        order = torch.randperm(num_examples, generator=generator, device=generator.device).to(scores.device)
        if self._is_complete(epoch):
            return order
        draws = torch.rand(num_examples, generator=generator, dtype=torch.float64, device=generator.device)
        stays = ~_is_low(scores) | (draws >= self.ratio).to(scores.device)
        return order[stays[order]]

    def weights(self, kept: torch.Tensor, made: Made) -> torch.Tensor | None:
        """1 / (1 - ratio) for those below the mean, 1 for the others; None in a complete epoch."""
        if self._is_complete(made.epoch):
            return None
        is_low = _is_low(checks.finite_scores(made.scores, made.num_examples))
        return torch.where(is_low[kept], 1 / (1 - self.ratio), 1.0)


def _is_low(scores: torch.Tensor) -> torch.Tensor:
    """Below the mean; rounding must not put the mean above all scores, where they are equal."""
    values = scores.double()
    return values < torch.minimum(values.mean(), values.max())

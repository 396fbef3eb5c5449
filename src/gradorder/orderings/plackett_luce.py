"""Between sorted and shuffled: draws without replacement, the hard ones more likely to come early."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Ordering


@final
@dataclass(frozen=True)
class PlackettLuce(Ordering):
    """Sort log(score) / temperature plus Gumbel noise, largest first.

    The same as drawing without replacement with weights score^(1/temperature). A temperature towards 0 gives
    Descending, towards infinity Shuffled. Examples with score zero come last, in random order; negative
    scores are refused.

    Args:
        temperature: positive, infinity allowed.
    """

    needs_scores: ClassVar[bool] = True
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not checks.is_number(self.temperature) or not self.temperature > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature!r} (Descending() is the limit at 0)")

    def _order(self, scores: torch.Tensor, num_examples: int, epoch: int, generator: torch.Generator) -> torch.Tensor:
        del epoch
        negative = (scores < 0).nonzero().flatten()
        if len(negative) > 0:
            raise ValueError(
                f"scores must not be negative for PlackettLuce, but {len(negative)} of {num_examples} are "
                f"(first: example {int(negative[0])} with {float(scores[negative[0]])})"
            )
        gumbel = _gumbel_noise(num_examples, generator).to(scores.device)
        log_scores = scores.double().log()
        # The same order either way; each form stays finite at its own end of the temperatures.
        if self.temperature <= 1:
            keys = log_scores + self.temperature * gumbel
        else:
            keys = log_scores / self.temperature + gumbel
        order = torch.argsort(keys, descending=True, stable=True)
        num_positive = int((scores > 0).sum())
        zeros = order[num_positive:]
        return torch.cat([order[:num_positive], zeros[torch.argsort(gumbel[zeros], stable=True)]])


def _gumbel_noise(size: int, generator: torch.Generator) -> torch.Tensor:
    exponential = torch.empty(size, dtype=torch.float64, device=generator.device)
    exponential.exponential_(generator=generator)
    return -exponential.clamp_(min=torch.finfo(torch.float64).tiny).log_()

"""Between sorted and shuffled: draws without replacement, the hard ones more likely to come early."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch

from gradorder import checks
from gradorder.orderings.ordering import Made, Ordering

_COLDEST_UNBIASED = 1e-6  # below, double precision rounds the noise away and with it the chances


@final
@dataclass(frozen=True)
class PlackettLuce(Ordering):
    """Between Descending and Shuffled: hard examples are more likely to come early.

    Rule: sort key_i = log(score_i) / temperature + Gumbel noise, largest first.

    The same as drawing without replacement with weights score^(1/temperature). A temperature towards 0 gives
    Descending, towards infinity Shuffled. Examples with score zero come last, in random order; negative
    scores are refused.

    With `unbiased` every kept example i weighs 1 / pi_i times kept / N, so that the mean of weights * losses over
    the epoch estimates the mean over all N without bias. pi_i = P(key_i > tau) = 1 - exp(-exp(log(score_i) /
    temperature - tau)) is its chance to be kept, given the largest key tau that was not (of its class, where there
    are labels). An example of score zero is kept only after all others, with equal chances; where none is kept,
    they are missing from the mean, which stays right only if they would have added nothing to it. A sampler's
    `drop_last` cuts the epoch after the weights are made, so that the mean is biased by what it cuts.

    Cost: N random numbers and one sort of N per epoch; with `unbiased` the noise is drawn once more.

    Reference: Plackett (1975), The Analysis of Permutations; the keys: Yellott (1977), The Relationship between Luce's
    Choice Axiom, Thurstone's Theory of Comparative Judgment, and the Double Exponential Distribution; the weights:
    Duffield, Lund and Thorup (2007), Priority Sampling for Estimation of Arbitrary Subset Sums.

    Args:
        temperature: positive, infinity allowed; at least 1e-6 with `unbiased`.
        unbiased: give weights.
    """

    needs_scores: ClassVar[bool] = True
    temperature: float = 1.0
    unbiased: bool = False

    def __post_init__(self) -> None:
        if not checks.is_number(self.temperature) or not self.temperature > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature!r} (Descending() is the limit at 0)")
        if not isinstance(self.unbiased, bool):
            raise TypeError(f"unbiased must be True or False, got {self.unbiased!r}")
        if self.unbiased and self.temperature < _COLDEST_UNBIASED:
            raise ValueError(
                f"temperature must be at least {_COLDEST_UNBIASED} with unbiased=True, got {self.temperature!r}"
            )

    @property
    def is_weighted(self) -> bool:
        """If unbiased."""
        return self.unbiased

    def _order(self, scores: torch.Tensor, num_examples: int, epoch: int, generator: torch.Generator) -> torch.Tensor:
        del epoch
        gumbel = _gumbel_noise(num_examples, generator).to(scores.device)
        num_positive = int((scores > 0).sum())
        order = _largest_first(self._keys(scores, gumbel), num_positive)
        zeros = order[num_positive:]
        return torch.cat([order[:num_positive], zeros[torch.argsort(gumbel[zeros], stable=True)]])

    def _keys(self, scores: torch.Tensor, gumbel: torch.Tensor) -> torch.Tensor:
        """What the order sorts by; -infinity for score zero."""
        checks.not_negative(scores, "PlackettLuce")
        log_scores = scores.double().log()
        # The same order either way; each form stays finite at its own end of the temperatures.
        if self.temperature <= 1:
            return log_scores + self.temperature * gumbel
        return (log_scores / self.temperature + gumbel).masked_fill_(scores == 0, -math.inf)

    def weights(self, kept: torch.Tensor, made: Made) -> torch.Tensor | None:
        """1 / pi_i times kept / N, in double precision; None unless unbiased."""
        if not self.unbiased:
            return None
        size = made.num_examples
        values = checks.finite_scores(made.scores, size)
        keys = self._keys(values, _gumbel_noise(size, made.generator).to(values.device))
        group = torch.zeros(size, dtype=torch.int64) if made.classes is None else made.classes.long()
        among = torch.ones(size, dtype=torch.bool) if made.candidates is None else made.candidates
        chances = self._chances(values, keys, kept, group.to(values.device), among.to(values.device))
        return len(kept) / int(among.sum()) / chances

    def _chances(
        self, scores: torch.Tensor, keys: torch.Tensor, kept: torch.Tensor, group: torch.Tensor, among: torch.Tensor
    ) -> torch.Tensor:
        """How likely each kept example was to be kept, given the largest key that was not."""
        num_groups = int(group.max()) + 1
        left_out = among.clone()
        left_out[kept] = False
        lowest = keys.new_full((num_groups,), -math.inf)
        tau = lowest.scatter_reduce(0, group[left_out], keys[left_out], "amax")[group[kept]]
        log_scores = scores[kept].double().log()
        # In the units of the keys, see there.
        above = (log_scores - tau) / self.temperature if self.temperature <= 1 else log_scores / self.temperature - tau
        chances = -torch.expm1(-above.exp())
        is_zero = scores == 0
        num_zeros = torch.bincount(group[among & is_zero], minlength=num_groups)
        num_kept_zeros = torch.bincount(group[kept][is_zero[kept]], minlength=num_groups)
        return torch.where(is_zero[kept], (num_kept_zeros / num_zeros)[group[kept]].double(), chances)


def _largest_first(keys: torch.Tensor, num_positive: int) -> torch.Tensor:
    """The order of the keys, equal ones as they stand; those after the first `num_positive` in any order."""
    if keys.device.type == "cpu":  # numpy sorts three times as fast as torch, but moves equal keys
        order = torch.from_numpy(np.argsort(keys.neg().numpy()))
        in_order = keys[order[:num_positive]]
        if not bool((in_order[1:] == in_order[:-1]).any()):
            return order
    return torch.argsort(keys, descending=True, stable=True)


def _gumbel_noise(size: int, generator: torch.Generator) -> torch.Tensor:
    exponential = torch.empty(size, dtype=torch.float64, device=generator.device)
    exponential.exponential_(generator=generator)
    return -exponential.clamp_(min=torch.finfo(torch.float64).tiny).log_()

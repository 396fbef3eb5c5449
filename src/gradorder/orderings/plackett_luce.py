"""PlackettLuce: a random order in which hard examples are more likely to come early."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, Request, random_order

_MIN_UNBIASED_TEMPERATURE = 1e-6  # below, double precision loses the noise and with it the probabilities


@final
@dataclass(frozen=True)
class PlackettLuce(Ordering):
    """Shuffle the examples so that hard ones are likely to come early: between Descending and Shuffled.

    Rule: sort key_i = log(score_i) / temperature + Gumbel noise, largest first.

    This is drawing without replacement with weights score^(1/temperature). The limit at temperature 0 is Descending, at
    infinity Shuffled. Examples with score zero come last, in random order. Negative scores raise an error.

    With `unbiased`, every kept example i has the weight 1 / pi_i times kept / N, so the mean of weights * losses over
    the epoch is an unbiased estimate of the mean over all N. pi_i = P(key_i > tau) = 1 - exp(-exp(log(score_i) /
    temperature - tau)) is its probability of being kept, given the largest skipped key tau (of its class, if there are
    labels). Three special cases:

    - If examples without a score fill all places of a class, no weights are unbiased. The epoch is then random and
      complete.
    - Examples with score zero are kept only after all others, with equal probabilities. If none is kept, the mean is
      unbiased only if they contribute nothing to it.
    - A sampler's `drop_last` drops examples after the weights are computed, which biases the mean.

    When: `keep` is below 1, and hard examples should be likely but not certain.

    Helps, theory: hard examples come more often, and every example has a chance to be visited. `go.recommended` with a
    budget draws in this way.

    Hurts, theory: a low temperature is close to sorting and shares its risks; `unbiased` weights bring back the
    variance that the selection removes.

    Cost: N random numbers and one sort of N per epoch.

    Reference: Plackett (1975), The Analysis of Permutations; the keys: Yellott (1977), The Relationship between Luce's
    Choice Axiom, Thurstone's Theory of Comparative Judgment, and the Double Exponential Distribution; the weights:
    Duffield, Lund and Thorup (2007), Priority Sampling for Estimation of Arbitrary Subset Sums.

    Args:
        temperature: positive, infinity allowed; at least 1e-6 with `unbiased`.
        unbiased: return weights.
    """

    needs_scores: ClassVar[bool] = True
    temperature: float = 1.0
    unbiased: bool = False

    def __post_init__(self) -> None:
        if not checks.is_number(self.temperature) or not self.temperature > 0:
            raise ValueError(
                f"temperature must be positive, got {self.temperature!r}. Use Descending() for the limit at 0"
            )
        if not isinstance(self.unbiased, bool):
            raise TypeError(f"unbiased must be True or False, got {self.unbiased!r}")
        if self.unbiased and self.temperature < _MIN_UNBIASED_TEMPERATURE:
            raise ValueError(
                f"temperature must be at least {_MIN_UNBIASED_TEMPERATURE} with unbiased=True, got {self.temperature!r}"
            )

    def order(self, request: Request) -> Order:
        """Return the examples by decreasing key."""
        scores = request.required_scores
        checks.not_negative(scores, "PlackettLuce")
        gumbel = _gumbel_noise(request.num_examples, request.generator).to(scores.device)
        keys = self._keys(scores, gumbel)
        num_positive = int((scores > 0).sum())
        order = _largest_first(keys, num_positive)
        zeros = order[num_positive:]
        order = torch.cat([order[:num_positive], zeros[torch.argsort(gumbel[zeros], stable=True)]])
        kept = request.kept(order)
        if not self.unbiased:
            return Order(kept)
        is_drawn = torch.ones_like(keys, dtype=torch.bool) if request.known is None else request.known.to(keys.device)
        if not _can_be_unbiased(request, is_drawn, kept):
            return random_order(request)
        probabilities = torch.where(is_drawn[kept], self._probabilities(request, keys, kept, is_drawn), 1.0)
        return Order(kept, len(kept) / request.num_examples / probabilities)

    def _keys(self, scores: torch.Tensor, gumbel: torch.Tensor) -> torch.Tensor:
        """Return the sort keys; -infinity for score zero."""
        log_scores = scores.double().log()
        # Both forms give the same order; each one stays finite in its own range of temperatures.
        if self.temperature <= 1:
            return log_scores + self.temperature * gumbel
        return (log_scores / self.temperature + gumbel).masked_fill_(scores == 0, -math.inf)

    def _probabilities(
        self, request: Request, keys: torch.Tensor, kept: torch.Tensor, is_drawn: torch.Tensor
    ) -> torch.Tensor:
        """Return the probability of each kept example to be kept, given the largest skipped key."""
        scores = request.required_scores
        num_groups = len(request.counts)
        group = request.classes_of(torch.arange(request.num_examples, device=keys.device)).long()
        is_skipped = torch.ones_like(is_drawn)
        is_skipped[kept] = False
        lowest = keys.new_full((num_groups,), -math.inf)
        tau = lowest.scatter_reduce(0, group[is_skipped], keys[is_skipped], "amax")[group[kept]]
        log_scores = scores[kept].double().log()
        # On the scale of the keys, see _keys.
        above = (log_scores - tau) / self.temperature if self.temperature <= 1 else log_scores / self.temperature - tau
        probabilities = -torch.expm1(-above.exp())
        is_zero = (scores == 0) & is_drawn
        num_zeros = torch.bincount(group[is_zero], minlength=num_groups)
        num_kept_zeros = torch.bincount(group[kept][is_zero[kept]], minlength=num_groups)
        return torch.where(is_zero[kept], (num_kept_zeros / num_zeros)[group[kept]].double(), probabilities)


def _can_be_unbiased(request: Request, is_drawn: torch.Tensor, kept: torch.Tensor) -> bool:
    """Whether every class with skipped examples keeps a drawn example, whose weight can account for them."""
    num_classes = len(request.counts)
    num_kept = torch.bincount(request.classes_of(kept).long(), minlength=num_classes)
    drawn = kept[is_drawn[kept]]
    num_drawn = torch.bincount(request.classes_of(drawn).long(), minlength=num_classes)
    is_cut = num_kept < torch.tensor(request.counts, device=num_kept.device)
    return not bool((is_cut & (num_drawn == 0)).any())


def _largest_first(keys: torch.Tensor, num_positive: int) -> torch.Tensor:
    """Sort by decreasing key, stable for the first `num_positive` examples; the others come in any order."""
    if keys.device.type == "cpu":  # numpy sorts three times as fast as torch, but is not stable
        order = torch.from_numpy(np.argsort(keys.neg().numpy()))
        in_order = keys[order[:num_positive]]
        if not bool((in_order[1:] == in_order[:-1]).any()):
            return order
    return torch.argsort(keys, descending=True, stable=True)


def _gumbel_noise(size: int, generator: torch.Generator) -> torch.Tensor:
    # From uniform numbers: torch's exponential_ gives different numbers in other versions and on other processors.
    uniform = torch.rand(size, dtype=torch.float64, device=generator.device, generator=generator)
    exponential = (1 - uniform).log_().neg_()
    return -exponential.clamp_(min=torch.finfo(torch.float64).tiny).log_()

"""Between sorted and shuffled: draws without replacement, the hard ones more likely to come early."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, Request

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

    Helps, theory: hard examples come more often and no example is certain to be left out: the draw behind
    `go.recommended`.

    Hurts, theory: a low temperature is close to sorting, with its dangers; `unbiased` weights bring back the variance
    that the selection removes.

    Cost: N random numbers and one sort of N per epoch.

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

    def order(self, request: Request) -> Order:
        """The largest key first."""
        scores = request.required_scores
        checks.not_negative(scores, "PlackettLuce")
        gumbel = _gumbel_noise(request.num_examples, request.generator).to(scores.device)
        keys = self._keys(scores, gumbel)
        num_positive = int((scores > 0).sum())
        order = _largest_first(keys, num_positive)
        zeros = order[num_positive:]
        order = torch.cat([order[:num_positive], zeros[torch.argsort(gumbel[zeros], stable=True)]])
        kept = request.kept(order)
        return Order(kept, self._weights(request, keys, kept) if self.unbiased else None)

    def _keys(self, scores: torch.Tensor, gumbel: torch.Tensor) -> torch.Tensor:
        """What the order sorts by; -infinity for score zero."""
        log_scores = scores.double().log()
        # The same order either way; each form stays finite at its own end of the temperatures.
        if self.temperature <= 1:
            return log_scores + self.temperature * gumbel
        return (log_scores / self.temperature + gumbel).masked_fill_(scores == 0, -math.inf)

    def _weights(self, request: Request, keys: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        """1 / pi_i times kept / N, in double precision; what comes first whatever its key has pi_i = 1."""
        size = request.num_examples
        by_chance = torch.ones(size, dtype=torch.bool, device=keys.device)
        if request.known is not None:
            by_chance &= request.known.to(keys.device)
        self._check_room(request, by_chance, kept)
        chances = torch.where(by_chance[kept], self._chances(request, keys, kept, by_chance), 1.0)
        return len(kept) / size / chances

    def _check_room(self, request: Request, by_chance: torch.Tensor, kept: torch.Tensor) -> None:
        """Where nothing is left to chance in a class, no weight could stand for what is left out of it."""
        num_classes = len(request.counts)
        num_kept = torch.bincount(request.classes_of(kept).long(), minlength=num_classes).tolist()
        drawn = kept[by_chance[kept]]
        num_drawn = torch.bincount(request.classes_of(drawn).long(), minlength=num_classes).tolist()
        for number, count in enumerate(request.counts):
            if num_kept[number] < count and num_drawn[number] == 0:
                which = "all" if request.classes is None else f"class number {number}"
                raise ValueError(
                    f"keep must leave room beside the examples that come first whatever their score, for the weights "
                    f"of {self} to be without bias: {which} with {count} examples keeps {num_kept[number]}, and as "
                    "many come first"
                )

    def _chances(
        self, request: Request, keys: torch.Tensor, kept: torch.Tensor, by_chance: torch.Tensor
    ) -> torch.Tensor:
        """How likely each kept example was to be kept, given the largest key that was not."""
        scores = request.required_scores
        num_groups = len(request.counts)
        group = request.classes_of(torch.arange(request.num_examples, device=keys.device)).long()
        left_out = torch.ones_like(by_chance)
        left_out[kept] = False
        lowest = keys.new_full((num_groups,), -math.inf)
        tau = lowest.scatter_reduce(0, group[left_out], keys[left_out], "amax")[group[kept]]
        log_scores = scores[kept].double().log()
        # In the units of the keys, see there.
        above = (log_scores - tau) / self.temperature if self.temperature <= 1 else log_scores / self.temperature - tau
        chances = -torch.expm1(-above.exp())
        is_zero = (scores == 0) & by_chance
        num_zeros = torch.bincount(group[is_zero], minlength=num_groups)
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
    # From uniform numbers: torch's own exponential ones are others in other versions of torch and on other processors.
    uniform = torch.rand(size, dtype=torch.float64, device=generator.device, generator=generator)
    exponential = (1 - uniform).log_().neg_()
    return -exponential.clamp_(min=torch.finfo(torch.float64).tiny).log_()

"""Informative: visit examples with score zero only in some epochs, and repeat the others instead."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, OrderingRun, Request

_MOST_VISITS = 2
"""Visits of one example per epoch: scores are an epoch old, and a few examples must not fill whole batches."""


@final
@dataclass(frozen=True)
class Informative(Ordering):
    """Shuffle the examples, and replace most examples with score zero by second visits of the others.

    Rule: the examples are divided into `every` fixed random parts, and the parts take turns. An example waits if its
    score is known and 0 and it is not the turn of its part. The epoch visits all examples that do not wait, shuffled;
    then the examples with a positive score a second time, shuffled again; then, if the epoch is still too short, random
    waiting examples. It has as many visits as a complete epoch.

    It is made for prompts in reinforcement learning. The score of a prompt is the spread of the rewards in its last
    group: if all completions get the same reward, all advantages are zero, and so is the gradient. Such a prompt is
    either solved or too hard for now, so it comes back after `every` epochs at the latest.

    Every example is visited at least once in any `every` consecutive epochs, even if `keep` shortens the epoch: the
    part whose turn it is takes precedence over examples that were never scored, and these over all others. Orders
    repeat examples, so labels are not supported. If no example has score zero, the order is exactly that of random
    reshuffling.

    When: the examples are prompts for GRPO or RLOO, and the run has several epochs.

    Helps, theory: a group with equal rewards has no gradient, so its rollouts are better spent on another prompt. On
    the one small task where that was measured, it saved no rollouts beyond noise (docs/prompts.md).

    Hurts, theory: in a run of one epoch it does nothing. If equal rewards still have a gradient, as with a KL term, it
    skips prompts that have a gradient.

    Cost: up to three permutations of N per epoch; the last scores of all examples are stored.

    Reference: none known to us for this form; without memory, after the rollout: Yu, Zhang, Zhu et al. (2025), DAPO: An
    Open-Source LLM Reinforcement Learning System at Scale.

    Args:
        every: the number of parts, at least 2.
    """

    needs_scores: ClassVar[bool] = True
    every: int = 4

    def __post_init__(self) -> None:
        checks.integer("every", self.every, minimum=2)

    def order(self, request: Request) -> Order:
        """Return the examples that do not wait, then second visits in place of the waiting ones."""
        self._check(request)
        num_places, generator = request.num_kept, request.generator
        scores = request.required_scores.cpu()
        known = torch.ones_like(scores, dtype=torch.bool) if request.known is None else request.known.cpu()
        is_due = request.in_turn(self.every)
        waits = known & (scores == 0) & ~is_due
        order = torch.randperm(request.num_examples, generator=generator, device=generator.device).cpu()
        # If there are too few places, examples with a larger number are skipped first.
        priority = torch.where(is_due, 0, torch.where(known, 2, 1))
        first = _first(order[~waits[order]], priority, num_places)
        again = first[(known & (scores > 0))[first]]
        rounds, num_free = [first[~known[first]], first[known[first]]], num_places - len(first)
        for examples in [again] * (_MOST_VISITS - 1) + [order[waits[order]]]:
            chosen = torch.randperm(len(examples), generator=generator, device=generator.device).cpu()[:num_free]
            rounds.append(examples[chosen])
            num_free -= len(chosen)
        return Order(torch.cat(rounds), repeats=True)

    def start(self, request: Request) -> OrderingRun:
        """Start a run whose epochs all have the same length."""
        self._check(request)
        return OrderingRun(self)

    def _check(self, request: Request) -> None:
        if request.classes is not None:
            raise ValueError(f"labels must not be given with {self}, which repeats examples")
        least = 1 / request.num_turns(self.every)
        if request.keep is not None and request.keep < least:
            raise ValueError(f"keep must be at least {least} with {self}, got {request.keep}")
        if request.scores is not None:
            checks.not_negative(request.scores, type(self).__name__)


def _first(order: torch.Tensor, priority: torch.Tensor, num_places: int) -> torch.Tensor:
    """Return the `num_places` examples with the smallest numbers in `priority`, in their given order."""
    chosen = torch.argsort(priority[order], stable=True)[:num_places]
    return order[chosen.sort().values]

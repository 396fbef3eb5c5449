"""Informative: examples whose score is zero wait for their turn, and the others take their places."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, Request

_MOST_VISITS = 2
"""Of one example in one epoch: scores are from the epoch before, and a few examples must not fill whole batches."""


@final
@dataclass(frozen=True)
class Informative(Ordering):
    """A random permutation in which most examples with score zero give up their place to the others.

    Rule: an example waits if it was scored, its score is 0, and another of `every` fixed random parts has its turn in
    this epoch. First come all examples that do not wait, shuffled; then those with a positive score once more, newly
    shuffled; then, if places are left, waiting examples at random. There are as many places as in a complete epoch.

    It is made for prompts of reinforcement learning, with the spread of the rewards in a prompt's last group as its
    score: if all completions of a prompt get the same reward, all advantages are zero, and so is the gradient. Such a
    prompt is either solved or hopeless for now, so it comes back after `every` epochs at the latest.

    Every example is visited at least once in any `every` consecutive epochs, also if `keep` cuts the epoch short: the
    part whose turn it is comes before examples that were never scored, and those before all others. Orders repeat
    examples, so labels are refused, and no other ordering can be put around this one. Where no example has score zero,
    it is random reshuffling, to the bit.

    Helps, theory: a group with equal rewards has no gradient, so its rollouts are better spent on another prompt. On
    the one small task where that was measured, it saved no rollouts beyond noise (docs/prompts.md).

    Hurts, theory: in a run of one epoch it does nothing. If equal rewards still have a gradient, as with a KL term, it
    skips prompts that teach something.

    Cost: up to three permutations of N per epoch; the last scores of all examples are kept.

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
        """The examples that do not wait, then the places that the others gave up."""
        self._check(request)
        (num_places,), generator = request.num_kept, request.generator
        scores = request.required_scores.cpu()
        known = torch.ones_like(scores, dtype=torch.bool) if request.known is None else request.known.cpu()
        is_due = self._is_due(request)
        waits = known & (scores == 0) & ~is_due
        order = torch.randperm(request.num_examples, generator=generator, device=generator.device).cpu()
        # Who loses a place if there are too few: 2 before 1 before 0.
        priority = torch.where(is_due, 0, torch.where(known, 2, 1))
        first = _first(order[~waits[order]], priority, num_places)
        again = first[(known & (scores > 0))[first]]
        rounds, num_free = [first[~known[first]], first[known[first]]], num_places - len(first)
        for examples in [again] * (_MOST_VISITS - 1) + [order[waits[order]]]:
            chosen = torch.randperm(len(examples), generator=generator, device=generator.device).cpu()[:num_free]
            rounds.append(examples[chosen])
            num_free -= len(chosen)
        return Order(torch.cat(rounds), repeats=True)

    def num_kept(self, request: Request) -> int | None:
        """All places of the epoch."""
        self._check(request)
        return sum(request.num_kept)

    def inside(self, wrapper: Ordering) -> None:
        """Refused: a wrapper counts on every example once."""
        del wrapper
        raise ValueError(f"inner must visit every example at most once, got {self}, which repeats examples")

    def _check(self, request: Request) -> None:
        if request.classes is not None:
            raise ValueError(f"labels must not be given with {self}, which repeats examples")
        if request.keep is not None and request.keep < 1 / self.every:
            raise ValueError(f"keep must be at least {1 / self.every} with {self}, got {request.keep}")
        if request.scores is not None:
            checks.not_negative(request.scores, type(self).__name__)

    def _is_due(self, request: Request) -> torch.Tensor:
        """Whether it is each example's turn, which comes once in `every` epochs."""
        size = request.num_examples
        # Always the same random parts: parts by index would follow the order in which a dataset was put together.
        by_place = torch.randperm(size, generator=torch.Generator().manual_seed(size))
        is_due = torch.zeros(size, dtype=torch.bool)
        is_due[by_place[request.epoch % self.every :: self.every]] = True
        return is_due


def _first(order: torch.Tensor, priority: torch.Tensor, num_places: int) -> torch.Tensor:
    """The examples of an order that get a place, still in this order."""
    chosen = torch.argsort(priority[order], stable=True)[:num_places]
    return order[chosen.sort().values]

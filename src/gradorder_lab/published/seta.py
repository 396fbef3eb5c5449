"""SeTa: draw a random part of the examples, then keep a window of easy to hard groups that slides with the epochs."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings import Order, Ordering, OrderingRun, Request
from gradorder_lab.published.request import is_known, permutation, refuse_keep, share

_RANDOM_PART = 0.125
"""The fraction of epochs at the end that skip at random only."""

_MOST_PASSES = 300
"""Of k-means. It converges in far fewer; the limit is for rounding that could let it alternate."""


@final
@dataclass(frozen=True)
class SeTa(Ordering):
    """Draw a random part of the examples and train on the groups of losses in a sliding window.

    Rule: draw (1 - p) n examples uniformly without replacement. One-dimensional k-means on their last losses forms k
    groups, from easy to hard. With w = round(alpha k), epoch t visits the groups f, ..., f + w - 1 of the drawn
    examples, where f = t mod (k - w + 1). Epoch 0 visits all examples. The last ceil(0.125 epochs) epochs visit
    (1 - p) n random examples. There are no weights.

    Constants: p = 0.1, k = 5, alpha = 0.9, the paper's for CIFAR. round(4.5) is 4, as in Python and numpy.

    Cost: one permutation, one sort and k-means per epoch. There is no extra forward pass: the losses are those of the
    last visit of each example.

    Differs from the paper: the formula does not say how k-means starts. Here it starts at the medians of k parts of
    equal size, so it is deterministic. Epoch 0 has no losses; it visits all n examples, so that every example has one.

    Reference: Zhou et al. (CVPR 2025), SeTa.

    Args:
        epochs: the number of epochs of the run.
        skipped: p, the fraction that is skipped at random, in [0, 1).
        num_groups: k, the number of groups.
        window: alpha, the fraction of the groups in the window, in (0, 1].
    """

    needs_scores: ClassVar[bool] = True
    epochs: int
    skipped: float = 0.1
    num_groups: int = 5
    window: float = 0.9

    def __post_init__(self) -> None:
        checks.integer("epochs", self.epochs, minimum=1)
        checks.integer("num_groups", self.num_groups, minimum=1)
        checks.fraction("window", self.window)
        if not checks.is_number(self.skipped) or not 0 <= self.skipped < 1:
            raise ValueError(f"skipped must be in [0, 1), got {self.skipped!r}")

    def order(self, request: Request) -> Order:
        """Return the drawn examples of the window in random order."""
        order = request.kept(permutation(request))
        if request.epoch == 0:
            return Order(order)
        drawn = order[: share(1 - self.skipped, request.num_examples)]
        if request.epoch >= self.epochs - checks.part_of(_RANDOM_PART, self.epochs):
            return Order(drawn)
        kept = drawn[self._is_in_window(request, drawn)]
        # Equal losses form a single group, and the window may hold none of it. An epoch cannot be empty.
        return Order(kept if len(kept) > 0 else drawn)

    def _is_in_window(self, request: Request, drawn: torch.Tensor) -> torch.Tensor:
        size = share(self.window, self.num_groups)
        first = request.epoch % (self.num_groups - size + 1)
        groups = groups_by_loss(request.required_scores.cpu()[drawn], self.num_groups)
        return (groups >= first) & (groups < first + size) | ~is_known(request)[drawn]

    def start(self, request: Request) -> OrderingRun:
        """Start a run whose epochs differ in length."""
        refuse_keep(self, request)
        return OrderingRun(self, prunes=True)


def groups_by_loss(losses: torch.Tensor, num_groups: int) -> torch.Tensor:
    """Return the group of each loss by one-dimensional k-means: 0 for the smallest losses. A group may be empty."""
    values, order = losses.double().sort(stable=True)
    size = len(values)
    centres = values[(2 * torch.arange(num_groups) + 1) * size // (2 * num_groups)]
    ends = torch.empty(0, dtype=torch.int64)
    for _ in range(_MOST_PASSES):
        # In sorted order a group is an interval, which ends halfway between two centres.
        inner = torch.searchsorted(values, (centres[1:] + centres[:-1]) / 2, right=True)
        before, ends = ends, torch.cat([inner, torch.tensor([size])])
        if torch.equal(ends, before):
            break
        centres = _means(values, ends, centres)
    groups = torch.empty(size, dtype=torch.int64)
    groups[order] = torch.searchsorted(ends, torch.arange(size), right=True)
    return groups


def _means(values: torch.Tensor, ends: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """Return the mean of each group; an empty group keeps its centre."""
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])
    parts = [values[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    means = [part.mean().clamp(part[0], part[-1]) if len(part) > 0 else centres[j] for j, part in enumerate(parts)]
    return torch.stack(means)

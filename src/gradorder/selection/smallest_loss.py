"""Of every few examples the one with the smallest loss: robust to outliers and wrong labels."""

from dataclasses import dataclass, field
from typing import Any, Self, final

import torch
from torch import nn
from torch.nn import functional as F

from gradorder import checks
from gradorder.batches import Batch
from gradorder.scores import Loss, Score
from gradorder.selection.selection import Selection, batch_scores, check_score


@final
@dataclass(frozen=True)
class SmallestLoss(Selection):
    """Of every k examples of the batch keep the one with the smallest loss.

    With the batch cut into groups G_1, G_2, ... of k neighbours, it keeps argmin over i in G_j of f_i(w) for each j,
    in the order of the groups, with weight one; of equal losses the first. A batch that k does not divide ends in a
    smaller group, of which the smallest stays too: ceil(B / k) examples in all. So shuffle, and draw batches k times
    as large as those to train on.

    Args:
        k: examples per group, at least one; 1 keeps everything.
        score: what is smallest; the loss (cross-entropy of `(inputs, targets)`) if not given, `Loss(losses)` for
            another one.

    With several processes each chooses within its own slice of the batch.

    Helps, theory: wrong labels and outliers, whose losses are large, are hardly ever chosen.

    Hurts, theory: clean data: hard examples that are right are left out too, and most of the forward passes with them.

    Cost: a forward pass on all B examples; the training step on B / k of them.

    Reference: Vatsal Shah, Xiaoxia Wu and Sujay Sanghavi, 2020, "Choosing the Sample with Lowest Loss makes SGD
    Robust".

    Example:
        >>> select = SmallestLoss(2, score=lambda model, batch: batch)
        >>> select(nn.Identity(), torch.tensor([3.0, 1.0, 5.0, 9.0, 7.0]))
        tensor([1., 5., 7.])
    """

    k: int
    score: Score = field(default_factory=Loss)

    def __post_init__(self) -> None:
        checks.integer("k", self.k, minimum=1)
        check_score(self.score)

    @classmethod
    def typical(cls, **settings: Any) -> tuple[Self, ...]:  # noqa: ANN401 - the class's own
        """One of three."""
        return (cls(3, **settings),)

    def _choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, None]:
        losses = batch_scores(self.score, model, batch).double()
        groups = F.pad(losses, (0, -len(losses) % self.k), value=torch.inf).view(-1, self.k)
        # A stable sort, since torch's argmin may name any of equal losses.
        smallest = groups.argsort(dim=1, stable=True)[:, 0]
        return smallest + torch.arange(0, len(losses), self.k, device=losses.device), None

"""SmallestLoss: train on the smallest loss of each group of k examples, which skips outliers and noisy labels."""

from dataclasses import dataclass, field
from typing import final

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
    """Keep the example with the smallest loss out of every k examples of the batch.

    The batch is cut into groups G_1, G_2, ... of k consecutive examples. The selection keeps argmin over i in G_j of
    f_i(w) for each j, in the order of the groups, with weight one; among equal losses it keeps the first. If k does not
    divide the batch, the last group is smaller, so ceil(B / k) examples are kept in all. Shuffle the data, and load
    batches k times as large as the ones to train on.

    Args:
        k: examples per group, at least one; 1 keeps everything.
        score: the score to compare. Defaults to the cross-entropy of `(inputs, targets)`; use `Loss(losses)` for
            another loss.

    With several processes, each process chooses within its own slice of the batch.

    Needs: batches k times as large as the training step, and the loss of each of their examples.

    When: many labels are noisy.

    Helps, theory: noisy labels and outliers have large losses, so they are rarely chosen.

    Hurts, theory: on clean data, hard examples with correct labels are skipped too, and most forward passes are
    wasted.

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

    def choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, None]:
        """Return the index of the smallest loss of each group."""
        losses = batch_scores(self.score, model, batch).double()
        groups = F.pad(losses, (0, -len(losses) % self.k), value=torch.inf).view(-1, self.k)
        # A stable sort, because torch's argmin may return any of several equal losses.
        smallest = groups.argsort(dim=1, stable=True)[:, 0]
        return smallest + torch.arange(0, len(losses), self.k, device=losses.device), None

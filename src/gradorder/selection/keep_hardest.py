"""KeepHardest: train on the hardest part of each batch (Algorithms 2 and 4 of the paper)."""

from dataclasses import dataclass, field
from typing import final

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch
from gradorder.checks import part_of
from gradorder.orderings.sorted import stable_argsort
from gradorder.ranks import world_size
from gradorder.scores import GradientNorm, Score
from gradorder.selection.selection import Selection, batch_scores, check_score


@final
@dataclass(frozen=True)
class KeepHardest(Selection):
    """Score a batch with the current model and keep its hardest examples, hardest first.

    Of B examples with scores p_1 >= p_2 >= ... >= p_B it keeps 1, ..., ceil(keep * B), each with weight one.

    Args:
        keep: a float is a fraction in (0, 1] and keeps ceil(keep * B) examples; an int is a count. At least one example
            is kept. A batch smaller than the count is kept whole.
        score: any score, or a function `(model, batch) -> (B,)`. Defaults to the exact gradient norm.

    With several processes (torch.distributed), each process keeps the hardest examples of its own slice of the batch,
    so all processes train on equally many. A count refers to the whole batch and must be divisible by the number of
    processes.

    Needs: the score of every example of the batch.

    When: you follow the paper's Algorithms 2 and 4, or scores are cheap compared to the training step.

    Helps, measured: on the synthetic problem, with the settings of the paper's main figure, it ends below selection in
    random order and below no selection after equal epochs, by a negligible margin (claim C6).

    Helps, theory: the training step uses only the hardest examples; this pays if scores are cheap compared to the step.

    Hurts, measured: on Boston it ends above training on all data in decreasing order, also by a negligible margin
    (claim C6).

    Hurts, theory: noisy labels and outliers are among the hardest examples of their batch, so they are always kept.

    Cost: the score of all B examples; the training step on the kept ones.

    Reference: Yuetong Xu and Baharan Mirzasoleiman, 2023, "Ordering for Non-Replacement SGD", Algorithms 2 and 4.

    Example:
        >>> select = KeepHardest(2, score=lambda model, batch: batch["difficulty"])
        >>> batch = {"x": torch.tensor([[1], [2], [3]]), "difficulty": torch.tensor([0.1, 0.9, 0.5])}
        >>> select(nn.Identity(), batch)["x"]
        tensor([[2],
                [3]])
    """

    keep: float
    score: Score = field(default_factory=GradientNorm)

    def __post_init__(self) -> None:
        if isinstance(self.keep, int) and not isinstance(self.keep, bool):
            checks.integer("keep", self.keep, minimum=1)
        else:
            checks.fraction("keep", self.keep)
        check_score(self.score)

    def choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, None]:
        """Return the indices of the hardest examples, hardest first."""
        scores = batch_scores(self.score, model, batch)
        return stable_argsort(scores, descending=True)[: self._num_kept(len(scores))], None

    def _num_kept(self, size: int) -> int:
        if isinstance(self.keep, int):
            if self.keep % world_size():
                raise ValueError(
                    f"keep must be divisible by the {world_size()} processes that share a batch, got {self.keep}"
                )
            return min(self.keep // world_size(), size)
        return part_of(self.keep, size)

"""TopLosses (ordered SGD): train on the largest losses of each batch, on fewer as the training accuracy rises."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch
from gradorder.checks import ROUNDING
from gradorder.ranks import Ranks, world_size
from gradorder.scores import Loss, Score
from gradorder.selection.selection import Selection, batch_scores, check_score, own_values, state_count


@final
class TopLosses(Selection):
    """Train on the mean of the q largest losses of each batch, with q falling as the training accuracy rises.

    With f_(1) >= f_(2) >= ... the losses of a batch of s examples, train on (f_(1) + ... + f_(q)) / q. At first q = s,
    then s/2, s/4, s/8 and s/16 once the training accuracy has reached 80, 90, 95 and 99.5% (rounded down, at least 1).

    There are two ways to use it. On the losses of your own training step, without another forward pass, as in the
    paper:

        top = go.TopLosses(batch_size=128)
        logits = model(inputs)
        losses = F.cross_entropy(logits, targets, reduction="none")
        top.mean(losses, correct=logits.argmax(1) == targets).backward()
        ...
        top.observe()               # after each epoch: uses the accuracy counted by mean

    As a selection, `top(model, batch)` returns the q examples with the largest losses, largest first. It sees no
    predictions, so pass it the accuracy: `top.observe(0.93)`.

    Args:
        batch_size: s, the global batch size of one training step.
        thresholds: increasing training accuracies in [0, 1].
        fractions: q / s before the first threshold and after each threshold; they must not increase.
        score: the score that the selection sorts by. Defaults to the cross-entropy of `(inputs, targets)`; use
            `Loss(losses)` for another loss.
        may_grow: let q grow again if a later accuracy falls below a threshold.

    A batch smaller than q is used whole. With several processes, each process takes its share of q, rounded down but at
    least 1, from its own slice. Call `observe` on all processes: it sums their counts. An accuracy that you pass must
    be the same on all of them.

    Needs: with `mean`, the losses of the training step; as a selection, the loss of every example of the batch.

    When: you want fewer epochs, not cheaper steps, and labels are clean.

    Helps, theory: no extra pass with `mean`; the objective lies between the mean and the maximum of the losses.

    Hurts, theory: with `mean` a step takes as long as before, so it can only save epochs. Like every rule that prefers
    large losses, it prefers noisy labels.

    Cost: with `mean`, a sort of s numbers; the step takes as long as before. As a selection, a forward pass on all s
    examples and the training step on q.

    Reference: Kenji Kawaguchi and Haihao Lu, 2020, "Ordered SGD: A New Stochastic Optimization Framework for Empirical
    Risk Minimization".

    Example:
        >>> top = TopLosses(batch_size=4)
        >>> losses = torch.tensor([1.0, 4.0, 2.0, 3.0])
        >>> top.mean(losses)
        tensor(2.5000)
        >>> top.observe(0.85)
        >>> top.q, top.mean(losses)
        (2, tensor(3.5000))
    """

    def __init__(
        self,
        batch_size: int,
        *,
        thresholds: Sequence[float] = (0.8, 0.9, 0.95, 0.995),
        fractions: Sequence[float] = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16),
        score: Score | None = None,
        may_grow: bool = False,
    ) -> None:
        self._batch_size = checks.integer("batch_size", batch_size, minimum=1)
        self._thresholds = _increasing_accuracies(thresholds)
        self._fractions = _decreasing_fractions(fractions, len(self._thresholds) + 1)
        self._score = Loss() if score is None else score
        check_score(self._score)
        self._may_grow = may_grow
        self._num_passed = 0
        self._num_correct: torch.Tensor | int = 0
        self._num_counted = 0

    @property
    def q(self) -> int:
        """The current number of losses per batch on this process."""
        share = self._fractions[self._num_passed] * self._batch_size / world_size()
        return max(1, math.floor(share * (1 + ROUNDING)))

    def mean(self, losses: torch.Tensor, *, correct: torch.Tensor | None = None) -> torch.Tensor:
        """Return the mean of the q largest losses, a scalar with grad. Among equal losses, the first ones are used.

        Args:
            losses: the losses of one training step, shape (B,).
            correct: whether each prediction was correct, shape (B,); counted for `observe()`.

        If a loss is NaN or infinite, so is the mean.
        """
        values = own_values("losses", losses)
        if correct is not None:
            self._count(correct, len(values))
        largest = values.detach().argsort(descending=True, stable=True)[: self.q]
        return values.index_select(0, largest).mean()

    def observe(self, accuracy: float | None = None) -> None:
        """Update q from the training accuracy: the given one, or the one that `mean` has counted since the last call.

        `mean` counts each batch before its optimizer step, so this is the accuracy during training.
        """
        ranks = Ranks.of_process_group()
        if accuracy is None:
            counts = torch.tensor([[int(self._num_correct), self._num_counted]])
            num_correct, num_counted = ranks.gathered(counts, torch.zeros(1))[0].sum(0).tolist()
            if num_counted == 0:
                raise ValueError("accuracy must be given unless mean(losses, correct=...) was called before, got None")
            accuracy = num_correct / num_counted
        if not checks.is_number(accuracy) or not 0 <= accuracy <= 1:
            raise ValueError(f"accuracy must be a fraction in [0, 1], got {accuracy!r}")
        passed = sum(accuracy >= threshold for threshold in self._thresholds)
        ranks.agree("the accuracy given to observe", thresholds_passed=passed)
        self._num_passed = passed if self._may_grow else max(passed, self._num_passed)
        self._num_correct = self._num_counted = 0

    def state_dict(self) -> dict[str, int]:
        """Return the number of passed thresholds and the counts of this process since then, as plain numbers."""
        return {
            "num_passed": self._num_passed,
            "num_correct": int(self._num_correct),
            "num_counted": self._num_counted,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from the result of `state_dict`."""
        passed = state_count(state, "num_passed")
        if passed > len(self._thresholds):
            raise ValueError(f"num_passed of state must be at most {len(self._thresholds)} thresholds, got {passed}")
        correct, counted = state_count(state, "num_correct"), state_count(state, "num_counted")
        if correct > counted:
            raise ValueError(f"num_correct of state must be at most num_counted={counted}, got {correct}")
        self._num_passed, self._num_correct, self._num_counted = passed, correct, counted

    def choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, None]:
        """Return the indices of the q largest losses, largest first."""
        losses = batch_scores(self._score, model, batch)
        return losses.argsort(descending=True, stable=True)[: self.q], None

    def _count(self, correct: torch.Tensor, size: int) -> None:
        right = checks.per_example("correct", correct, size)
        if right.dtype != torch.bool:
            raise TypeError(f"correct must be True or False for each example, got {right.dtype}")
        self._num_correct = self._num_correct + right.sum()  # stays on the device until it is read
        self._num_counted += size


def _increasing_accuracies(thresholds: Sequence[float]) -> tuple[float, ...]:
    values = tuple(thresholds)
    if not all(checks.is_number(value) and 0 <= value <= 1 for value in values) or list(values) != sorted(set(values)):
        raise ValueError(f"thresholds must be increasing fractions in [0, 1], got {values}")
    return values


def _decreasing_fractions(fractions: Sequence[float], length: int) -> tuple[float, ...]:
    values = tuple(fractions)
    if len(values) != length:
        raise ValueError(
            f"fractions must hold {length} values, one more than the thresholds, got {len(values)}: {values}"
        )
    for value in values:
        checks.fraction("fractions", value)
    if list(values) != sorted(values, reverse=True):
        raise ValueError(f"fractions must not increase, got {values}")
    return values

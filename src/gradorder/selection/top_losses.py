"""Ordered SGD: train on the largest losses of each batch, on fewer the better the fit."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self, final

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch
from gradorder.checks import ROUNDING
from gradorder.ranks import Ranks, world_size
from gradorder.scores import Loss, Score
from gradorder.selection import state as states
from gradorder.selection.selection import Selection, batch_scores, check_score, own_values


@final
class TopLosses(Selection):
    """The mean of the q largest losses of each batch; q falls as the training accuracy rises.

    With f_(1) >= f_(2) >= ... the losses of a batch of s examples, train on (f_(1) + ... + f_(q)) / q. At first q = s,
    then s/2, s/4, s/8 and s/16 once the training accuracy has reached 80, 90, 95 and 99.5% (rounded down, at least 1).

    Two ways of use. On the losses of your own training step, without another pass (as in its paper):

        top = go.TopLosses(batch_size=128)
        logits = model(inputs)
        losses = F.cross_entropy(logits, targets, reduction="none")
        top.mean(losses, correct=logits.argmax(1) == targets).backward()
        ...
        top.observe()               # after each epoch: its accuracy, as counted by mean

    As a selection: `top(model, batch)` is the q examples of the largest loss, largest first. It sees no predictions, so
    tell it the accuracy: `top.observe(0.93)`.

    Args:
        batch_size: s, the whole batch of one training step.
        thresholds: training accuracies, increasing, in [0, 1].
        fractions: q / s before the first threshold and from each one on, none larger than the one before.
        score: what the selection sorts by; the loss (cross-entropy of `(inputs, targets)`) if not given,
            `Loss(losses)` for another one.
        may_grow: let q grow again where a later accuracy falls below a threshold.

    A batch smaller than q counts as a whole. With several processes each takes its own share of q, rounded down but at
    least 1, from its own slice; call `observe` on all of them: it adds up what they counted, and all must be told the
    same accuracy.

    Helps, theory: no extra pass with `mean`; minimises something between the mean and the largest loss.

    Hurts, theory: with `mean` the step becomes no shorter: what it saves is epochs, if any; wrong labels as with every
    rule that prefers large losses.

    Cost: with `mean`, a sort of s numbers; the step itself becomes no shorter. As a selection, a forward pass on all s
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
        self._fractions = _falling_fractions(fractions, len(self._thresholds) + 1)
        self._score = Loss() if score is None else score
        check_score(self._score)
        self._may_grow = may_grow
        self._num_passed = 0
        self._num_correct: torch.Tensor | int = 0
        self._num_counted = 0

    @property
    def q(self) -> int:
        """How many losses of a batch count now, on this process."""
        share = self._fractions[self._num_passed] * self._batch_size / world_size()
        return max(1, math.floor(share * (1 + ROUNDING)))

    def mean(self, losses: torch.Tensor, *, correct: torch.Tensor | None = None) -> torch.Tensor:
        """The mean of the q largest losses, a scalar with grad; of equal losses the first count.

        Args:
            losses: of one training step, shape (B,).
            correct: whether each prediction was right, shape (B,); counted for `observe()`.

        A NaN or infinite loss makes the mean so, as it would that of all losses.
        """
        values = own_values("losses", losses)
        if correct is not None:
            self._count(correct, len(values))
        largest = values.detach().argsort(descending=True, stable=True)[: self.q]
        return values.index_select(0, largest).mean()

    def observe(self, accuracy: float | None = None) -> None:
        """Set q by the training accuracy: the one given, or what `mean` has counted since the last call.

        What is counted is the accuracy while training: of each batch as it was seen, before its step.
        """
        ranks = Ranks.of_process_group()
        if accuracy is None:
            counts = torch.tensor([[int(self._num_correct), self._num_counted]])
            num_correct, num_counted = ranks.gathered(counts, torch.zeros(1))[0].sum(0).tolist()
            if num_counted == 0:
                raise ValueError("accuracy must be given where mean(losses, correct=...) has counted nothing, got None")
            accuracy = num_correct / num_counted
        if not checks.is_number(accuracy) or not 0 <= accuracy <= 1:
            raise ValueError(f"accuracy must be a fraction in [0, 1], got {accuracy!r}")
        passed = sum(accuracy >= threshold for threshold in self._thresholds)
        ranks.agree("the accuracy given to observe", thresholds_passed=passed)
        self._num_passed = passed if self._may_grow else max(passed, self._num_passed)
        self._num_correct = self._num_counted = 0

    def state_dict(self) -> dict[str, int]:
        """Plain numbers: how many thresholds were passed, and what this process has counted since."""
        return {
            "num_passed": self._num_passed,
            "num_correct": int(self._num_correct),
            "num_counted": self._num_counted,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        passed = states.count(state, "num_passed")
        if passed > len(self._thresholds):
            raise ValueError(f"num_passed of state must be at most {len(self._thresholds)} thresholds, got {passed}")
        correct, counted = states.count(state, "num_correct"), states.count(state, "num_counted")
        if correct > counted:
            raise ValueError(f"num_correct of state must be at most num_counted={counted}, got {correct}")
        self._num_passed, self._num_correct, self._num_counted = passed, correct, counted

    @classmethod
    def typical(cls, **settings: Any) -> tuple[Self, ...]:  # noqa: ANN401 - the class's own
        """Half of the batch, from the start."""
        return (cls(7, thresholds=(), fractions=(0.5,), **settings),)

    def _choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, None]:
        losses = batch_scores(self._score, model, batch)
        return losses.argsort(descending=True, stable=True)[: self.q], None

    def _count(self, correct: torch.Tensor, size: int) -> None:
        right = checks.per_example("correct", correct, size)
        if right.dtype != torch.bool:
            raise TypeError(f"correct must be True or False for each example, got {right.dtype}")
        self._num_correct = self._num_correct + right.sum()  # stays on the device until somebody asks
        self._num_counted += size


def _increasing_accuracies(thresholds: Sequence[float]) -> tuple[float, ...]:
    values = tuple(thresholds)
    if not all(checks.is_number(value) and 0 <= value <= 1 for value in values) or list(values) != sorted(set(values)):
        raise ValueError(f"thresholds must be increasing fractions in [0, 1], got {values}")
    return values


def _falling_fractions(fractions: Sequence[float], length: int) -> tuple[float, ...]:
    values = tuple(fractions)
    if len(values) != length:
        raise ValueError(f"fractions must be one more than the thresholds, {length}, got {len(values)}: {values}")
    for value in values:
        checks.fraction("fractions", value)
    if list(values) != sorted(values, reverse=True):
        raise ValueError(f"fractions must not grow, got {values}")
    return values

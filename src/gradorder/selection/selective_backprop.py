"""SelectiveBackprop: keep an example with a probability that grows with the rank of its loss."""

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch
from gradorder.checks import widened
from gradorder.scores import Loss, Score
from gradorder.selection.selection import (
    RandomNumbers,
    Selection,
    batch_scores,
    check_score,
    own_values,
    state_count,
    state_vector,
)


@final
class SelectiveBackprop(Selection):
    """Keep example i with probability CDF(f_i)^beta, where CDF is the distribution of the last R losses.

    CDF(x) is the share of the last R losses that are <= x. They include the losses of the batch itself, so the largest
    loss of all is always kept. About 1 / (beta + 1) of the examples are kept: half of them for beta = 1. The returned
    batch has a different size each time, keeps the order of the batch, and has weights one. If no example is kept by
    chance, the one with the largest loss is kept.

    Args:
        beta: positive. A larger value keeps fewer examples.
        history: R, the number of losses to remember. 1024 losses span several batches: enough for a smooth
            distribution, and few enough to follow the losses as they fall.
        seed: seed of the random numbers. Processes draw different numbers from the same seed.
        score: the score to rank by. Defaults to the cross-entropy of `(inputs, targets)`; use `Loss(losses)` for
            another loss.

    If your training step has already computed the losses, `losses[select.chosen(losses)].mean()` needs no further
    forward pass.

    With several processes, each process chooses within its own slice, using its own losses, and keeps its own number of
    examples. Averaging the gradients of the processes then weights processes equally, not examples. Each process has
    its own state: save and load all of them to resume exactly.

    Needs: the loss of every example of the batch.

    When: the backward pass takes most of the time, and labels are clean.

    Helps, theory: it adapts as the losses fall: the kept share stays the same.

    Hurts, theory: batches differ in size; biased towards large losses, which include noisy labels.

    Cost: a forward pass on all B examples and the training step on the kept ones. With `chosen`, a sort of R numbers,
    but the backward pass takes as long as before: only the separate forward pass saves time.

    Reference: Angela H. Jiang, Daniel L.-K. Wong, Giulio Zhou, David G. Andersen, Jeffrey Dean, Gregory R. Ganger,
    Gauri Joshi, Michael Kaminsky, Michael Kozuch, Zachary C. Lipton and Padmanabhan Pillai, 2019, "Accelerating Deep
    Learning by Focusing on the Biggest Losers".

    Example:
        >>> select = SelectiveBackprop(beta=2, history=4)
        >>> select.chosen(torch.tensor([0.1, 5.0, 0.1, 0.2]))  # kept with probability 1/4, 1, 1/4, 9/16
        tensor([1, 3])
    """

    def __init__(self, beta: float = 1.0, history: int = 1024, seed: int = 0, *, score: Score | None = None) -> None:
        self._beta = checks.positive("beta", beta)
        self._max_length = checks.integer("history", history, minimum=1)
        self._random = RandomNumbers(seed)
        self._score = Loss() if score is None else score
        check_score(self._score)
        self._history = torch.empty(0)

    def chosen(self, losses: torch.Tensor) -> torch.Tensor:
        """Return the increasing indices of the examples to keep, at least one, and remember the losses.

        Args:
            losses: the losses of one batch, shape (B,), finite.
        """
        values = widened(checks.finite_scores(own_values("losses", losses)))
        self._remember(values)
        places = torch.searchsorted(self._history.sort().values, values, right=True)
        probabilities = (places.double() / len(self._history)) ** self._beta
        kept = (self._random.uniform(len(values), values.device) < probabilities).nonzero().flatten()
        return kept if len(kept) else values.argsort(descending=True, stable=True)[:1]

    def state_dict(self) -> dict[str, int | torch.Tensor]:
        """Return the remembered losses of this process, oldest first, and the position in the random numbers."""
        return {"num_draws": self._random.num_calls, "history": self._history.to("cpu", copy=True)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from the result of `state_dict`."""
        num_draws = state_count(state, "num_draws")
        self._history = state_vector(state, "history", max_length=self._max_length)
        self._random.num_calls = num_draws

    def choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, None]:
        """Return the indices of the examples that are kept by chance."""
        return self.chosen(batch_scores(self._score, model, batch)), None

    def _remember(self, losses: torch.Tensor) -> None:
        """Append the losses and drop the oldest ones. The history is kept on the device of the losses."""
        known = self._history.to(losses)
        self._history = torch.cat([known, losses])[-self._max_length :]

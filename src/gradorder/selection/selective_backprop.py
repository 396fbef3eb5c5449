"""Selective backprop: keep an example with a probability that grows with the rank of its loss."""

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch
from gradorder.checks import widened
from gradorder.scores import Loss, Score
from gradorder.selection import state as states
from gradorder.selection.draws import Draws
from gradorder.selection.selection import Selection, batch_scores, check_score, own_values


@final
class SelectiveBackprop(Selection):
    """Keep example i with probability CDF(f_i)^beta, CDF being the distribution of the last R losses.

    CDF(x) is the share of the last R losses that are <= x, the batch's own among them, so that the largest of all is
    always kept. For beta = 1 about half of the examples stay, for beta about 1 / (beta + 1). The batch that returns has
    a different size each time, in the order of the batch, with weights one; if no example was kept by chance, the
    one with the largest loss is.

    Args:
        beta: positive; the larger, the fewer stay.
        history: R, how many of the last losses are remembered: 1024 are several batches, enough for a smooth
            distribution, and few enough to follow the losses as they fall.
        seed: of its own random numbers; process r draws others than process s from the same seed.
        score: what is ranked; the loss (cross-entropy of `(inputs, targets)`) if not given, `Loss(losses)` for
            another one.

    With losses of your own, `losses[select.chosen(losses)].mean()` needs no other pass.

    With several processes each chooses within its own slice, by the losses that it has seen itself, and keeps a number
    of its own. Averaging the gradients of the processes then gives each process the same weight, not each example.
    The state is that of this process: save and load it on each for a run that goes on exactly.

    Helps, theory: adapts to the losses as they fall: the same share stays at any time.

    Hurts, theory: batches of a different size each time; biased towards large losses, wrong labels among them.

    Cost: a forward pass on all B examples and the training step on those kept. With `chosen`, a sort of R numbers, but
    a backward pass as long as before: the saving needs the second forward pass.

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
        self._longest = checks.integer("history", history, minimum=1)
        self._draws = Draws(seed)
        self._score = Loss() if score is None else score
        check_score(self._score)
        self._history = torch.empty(0)

    def chosen(self, losses: torch.Tensor) -> torch.Tensor:
        """The indices of the examples to keep, increasing; at least one. The losses are remembered.

        Args:
            losses: of one batch, shape (B,), finite.
        """
        values = widened(checks.finite_scores(own_values("losses", losses)))
        self._remember(values)
        places = torch.searchsorted(self._history.sort().values, values, right=True)
        probabilities = (places.double() / len(self._history)) ** self._beta
        kept = (self._draws.uniform(len(values), values.device) < probabilities).nonzero().flatten()
        return kept if len(kept) else values.argsort(descending=True, stable=True)[:1]

    def state_dict(self) -> dict[str, int | torch.Tensor]:
        """The losses that this process remembers, oldest first, and the place in the random numbers."""
        return {"num_draws": self._draws.num_made, "history": self._history.to("cpu", copy=True)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        num_draws = states.count(state, "num_draws")
        self._history = states.finite_row(state, "history", longest=self._longest)
        self._draws.num_made = num_draws

    def _choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, None]:
        return self.chosen(batch_scores(self._score, model, batch)), None

    def _remember(self, losses: torch.Tensor) -> None:
        """Append, and let the oldest go; the history lives where the losses do."""
        known = self._history.to(losses)
        self._history = torch.cat([known, losses])[-self._longest :]

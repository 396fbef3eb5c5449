"""ImportanceSampling: draw examples in proportion to a score and correct the bias by weights, only while it pays."""

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch, num_examples, take
from gradorder.errors import NonFiniteScoresError
from gradorder.norms.model_state import device_of
from gradorder.ranks import world_size
from gradorder.scores import LogitError, Score
from gradorder.selection.selection import (
    RandomNumbers,
    Selection,
    check_score,
    own_values,
    raw_scores,
    state_count,
    state_number,
)


@final
class ImportanceSampling(Selection):
    """Draw b of the batch's B examples in proportion to a score, with replacement, and weight them by 1 / (B p_i).

    p_i is the score of example i divided by the sum of all B scores. The default score is the norm of the loss gradient
    at the last layer's pre-activations. With the weights, the expectations of the loss and its gradient are their means
    over the B examples, for any positive scores; the scores only change the variance. An example with score zero is
    never drawn, so its gradient must be zero.

    The selection is on only while tau > (B + 3 b) / (3 b). Then scoring B examples and training on b costs less than
    the larger uniform batch of the same variance. tau comes from the scores: 1 / tau^2 = 1 - ||p - u||^2 / sum p_i^2
    with u uniform, which is tau = root mean square / mean of the scores. It is smoothed over batches and starts at its
    first value. B = 3 b needs tau > 2.

    While it is off, it returns b random examples of the batch with weights one and does not score them. You can then
    update tau from the outputs of the training step, at no cost:

        select.observe((logits.detach().softmax(1) - F.one_hot(targets, num_classes)).norm(dim=1))

    If you never call `observe`, it scores the b examples of the first batch and of every `probe_every`-th batch after
    it.

    Args:
        batch_size: b, the global batch size of one training step. The loader's batches are larger: B = 3 b in the
            paper.
        score: p_i up to a factor, >= 0. Defaults to `LogitError()`, for the cross-entropy of `(inputs, targets)`; use
            `LastLayerBound(losses)` for any other loss.
        smoothing: the weight of the old tau in the new one, in [0, 1). 0.9 averages over about the last ten batches.
        probe_every: the number of batches from one probe to the next while it is off. With 10, probing costs a tenth of
            a forward pass. None never probes: tau then comes from `observe` alone.
        seed: seed of the random numbers. Processes draw different numbers from the same seed.

    A batch of at most b examples is returned whole. With several processes, each process draws its share of b from its
    own slice and has its own tau; b must be divisible by the number of processes.

    Needs: a batch larger than the training step, and the score of each of its examples.

    When: the gradient must stay unbiased, and few examples of a batch have large scores.

    Helps, theory: unbiased, and switches itself off while it does not pay.

    Hurts, theory: needs a spread of scores (tau above 2 for B = 3 b) that early training rarely has. While it is off,
    two thirds of the loaded examples are not used.

    Cost: on, a forward pass on B examples and the training step on b. Off, nothing, or a forward pass on b examples
    every `probe_every` batches; the other B - b examples of each batch are loaded but not used.

    Reference: Angelos Katharopoulos and François Fleuret, 2018, "Not All Samples Are Created Equal: Deep Learning with
    Importance Sampling".

    Example:
        >>> select = ImportanceSampling(2, score=lambda model, batch: batch)
        >>> select.observe(torch.tensor([100.0] + [0.01] * 49))
        >>> select.pays(num_presampled=6)
        True
        >>> kept, weights = select.weighted(nn.Identity(), torch.tensor([1.0, 1.0, 1e-9, 1.0, 1.0, 1e-9]))
        >>> kept, weights
        (tensor([1., 1.]), tensor([0.6667, 0.6667]))
    """

    reweights = True

    def __init__(
        self,
        batch_size: int,
        *,
        score: Score | None = None,
        smoothing: float = 0.9,
        probe_every: int | None = 10,
        seed: int = 0,
    ) -> None:
        self._batch_size = checks.integer("batch_size", batch_size, minimum=1)
        self._score = LogitError() if score is None else score
        check_score(self._score)
        if not checks.is_number(smoothing) or not 0 <= smoothing < 1:
            raise ValueError(f"smoothing must be in [0, 1), got {smoothing!r}")
        self._smoothing = float(smoothing)
        if probe_every is not None:
            checks.integer("probe_every", probe_every, minimum=1)
        self._probe_every = probe_every
        self._random = RandomNumbers(seed)
        self._tau = 0.0
        self._is_observed = False
        self._is_uniform = True
        self._num_unprobed = 0

    @property
    def tau(self) -> float:
        """The smoothed tau; 0 before the first scores."""
        return self._tau

    def pays(self, num_presampled: int) -> bool:
        """Whether examples would be drawn by score from a batch of B = `num_presampled` examples on this process."""
        drawn = self._num_drawn()
        return num_presampled > drawn and self._tau > (num_presampled + 3 * drawn) / (3 * drawn)

    def observe(self, scores: torch.Tensor) -> None:
        """Update tau from the scores of the last returned batch, and stop probing.

        If that batch was drawn by score, this call changes nothing: its scores are not representative of the data.
        """
        self._is_observed = True
        if self._is_uniform:
            self._update_tau(_Spread(own_values("scores", scores).detach()))

    def state_dict(self) -> dict[str, int | float]:
        """Return tau and the positions in the random numbers and in the probing, as plain numbers."""
        return {
            "tau": self._tau,
            "num_draws": self._random.num_calls,
            "num_unprobed": self._num_unprobed,
            "is_observed": int(self._is_observed),
            "is_uniform": int(self._is_uniform),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from the result of `state_dict`."""
        tau = state_number(state, "tau")
        names = ("num_draws", "num_unprobed", "is_observed", "is_uniform")
        draws, unprobed, observed, uniform = (state_count(state, name) for name in names)
        self._tau, self._random.num_calls, self._num_unprobed = tau, draws, unprobed
        self._is_observed, self._is_uniform = bool(observed), bool(uniform)

    def choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return indices drawn by score and their weights; while it is off, random indices and None."""
        size = num_examples(batch)
        self._is_uniform = not self.pays(size)
        if self._is_uniform:
            return self._uniform(model, batch, size), None
        spread = _Spread(raw_scores(self._score, model, batch))
        self._update_tau(spread)
        return self._draw(spread.scores)

    def _draw(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw indices in proportion to the scores, with their weights."""
        uniforms = self._random.uniform(self._num_drawn(), scores.device)
        indices = draw_by(scores, uniforms)
        weights = scores.mean() / scores[indices]
        return indices, weights.float()

    def _uniform(self, model: nn.Module, batch: Batch, size: int) -> torch.Tensor:
        """Draw a random part of the batch, and score it if a probe is due."""
        device, drawn = device_of(model), self._num_drawn()
        if size <= drawn:
            indices = torch.arange(size, device=device)
        else:
            indices = self._random.uniform(size, device).argsort()[:drawn]
        if self._is_probing():
            self._update_tau(_Spread(raw_scores(self._score, model, take(batch, indices))))
        return indices

    def _is_probing(self) -> bool:
        if self._is_observed or self._probe_every is None:
            return False
        is_due = self._num_unprobed % self._probe_every == 0
        self._num_unprobed += 1
        return is_due

    def _update_tau(self, spread: "_Spread") -> None:
        self._tau = spread.tau if self._tau == 0 else self._smoothing * self._tau + (1 - self._smoothing) * spread.tau

    def _num_drawn(self) -> int:
        if self._batch_size % world_size():
            raise ValueError(
                f"batch_size must be divisible by the {world_size()} processes that share a batch, "
                f"got {self._batch_size}"
            )
        return self._batch_size // world_size()


class _Spread:
    """Scores as float64, scaled so that their squares stay finite, and their tau."""

    def __init__(self, scores: torch.Tensor) -> None:
        values = scores.double()
        peak = values.amax().clamp(min=torch.finfo(torch.float64).tiny)
        values = values / peak
        # One transfer from the device for all four numbers.
        is_finite, lowest, mean, square = torch.stack(
            [scores.isfinite().all().double(), values.amin(), values.mean(), values.square().mean()]
        ).tolist()
        if not is_finite:
            raise NonFiniteScoresError.of(scores)
        if lowest < 0:
            negative = (scores < 0).nonzero().flatten()
            raise ValueError(
                f"scores must not be negative for ImportanceSampling, but {len(negative)} of {len(scores)} are "
                f"(first: example {int(negative[0])} with {float(scores[negative[0]])})"
            )
        # If all scores are zero, every example is equally likely.
        self.scores = values if mean > 0 else torch.ones_like(values)
        self.tau: float = square**0.5 / mean if mean > 0 else 1.0


def draw_by(scores: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Return, for each uniform number, an index drawn with probability proportional to its score."""
    ends = scores.cumsum(0)
    total = ends[-1]
    # Rounding up to the total would select an index after the last positive score.
    points = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(ends, points, right=True)

"""Importance sampling: draw by an upper bound of the gradient norm, undo the bias by weights, only while it pays."""

from collections.abc import Mapping
from typing import Any, Self, final

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch, num_examples, take
from gradorder.errors import NonFiniteScoresError
from gradorder.norms.model_state import device_of
from gradorder.ranks import world_size
from gradorder.scores import LogitError, Score
from gradorder.selection import state as states
from gradorder.selection.draws import Draws
from gradorder.selection.selection import Selection, check_score, own_values, raw_scores


@final
class ImportanceSampling(Selection):
    """Draw b of the batch's B examples in proportion to a score, with replacement, and weight them by 1 / (B p_i).

    p_i is the score of example i over the sum of all B, by default the norm of the loss gradient at the last layer's
    pre-activations. With the weights the loss and its gradient keep their expectation, the mean over the B examples,
    whatever the (positive) scores are; the score decides the variance. An example of score zero is never drawn, so it
    must have gradient zero.

    It is on only while tau > (B + 3 b) / (3 b), where scoring B examples and training on b costs less than the larger
    uniform batch of the same variance. tau comes from the scores: 1 / tau^2 = 1 - ||p - u||^2 / sum p_i^2 with u
    uniform, which is tau = root mean square / mean of the scores; it is smoothed over batches and starts at its first
    value. B = 3 b needs tau > 2.

    While off it returns a random b of the B examples with weights one, unscored. tau is then learnt from the training
    step's own numbers, for free,

        select.observe((logits.detach().softmax(1) - F.one_hot(targets, num_classes)).norm(dim=1))

    or, as long as nobody calls `observe`, by scoring the b examples of the first batch and of every `probe_every`-th
    one after it.

    Args:
        batch_size: b, the whole batch of one training step. The loader's batches are larger: B = 3 b in the paper.
        score: p_i up to a factor, >= 0; `LogitError()` if not given, which is for cross-entropy of `(inputs, targets)`.
            `LastLayerBound(losses)` serves any other loss.
        smoothing: the part of the old tau in the new one, in [0, 1): with 0.9 about the last ten batches count.
        probe_every: batches from one probe to the next while off, so that 10 make probing cost a tenth of a forward
            pass; None: never, `observe` alone tells.
        seed: of its own random numbers; process r draws others than process s from the same seed.

    A batch of at most b examples is returned whole. With several processes each draws its share of b, which their
    number must divide, from its own slice, and keeps a tau of its own.

    Helps, theory: unbiased, and switches itself off while it does not pay.

    Hurts, theory: needs a spread of scores (tau above 2 for B = 3 b) that early training rarely has; while it is off,
    two thirds of what was loaded are thrown away.

    Cost: on, a forward pass on B examples and the training step on b. Off, nothing or a forward pass on b examples in
    every `probe_every` batches; the other B - b examples of each batch were loaded in vain.

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
        self._draws = Draws(seed)
        self._tau = 0.0
        self._is_told = False
        self._is_uniform = True
        self._num_unprobed = 0

    @property
    def tau(self) -> float:
        """The smoothed tau; 0 as long as nothing is known."""
        return self._tau

    def pays(self, num_presampled: int) -> bool:
        """Whether a batch of B = `num_presampled` examples (on this process) would be drawn from by its scores."""
        drawn = self._num_drawn()
        return num_presampled > drawn and self._tau > (num_presampled + 3 * drawn) / (3 * drawn)

    def observe(self, scores: torch.Tensor) -> None:
        """Learn tau from the scores of the batch that was returned last; ends the probing.

        Where it was drawn by its scores they say nothing about the data, and tau is known better: nothing happens.
        """
        self._is_told = True
        if self._is_uniform:
            self._learn(_Spread(own_values("scores", scores).detach()))

    def state_dict(self) -> dict[str, int | float]:
        """Plain numbers: tau, the place in the random numbers and in the probing."""
        return {
            "tau": self._tau,
            "num_draws": self._draws.num_made,
            "num_unprobed": self._num_unprobed,
            "is_told": int(self._is_told),
            "is_uniform": int(self._is_uniform),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        tau = states.number(state, "tau")
        names = ("num_draws", "num_unprobed", "is_told", "is_uniform")
        draws, unprobed, told, uniform = (states.count(state, name) for name in names)
        self._tau, self._draws.num_made, self._num_unprobed = tau, draws, unprobed
        self._is_told, self._is_uniform = bool(told), bool(uniform)

    @classmethod
    def typical(cls, **settings: Any) -> tuple[Self, ...]:  # noqa: ANN401 - the class's own
        """While it draws, and while it is off."""
        drawing = cls(3, **settings)
        drawing.observe(torch.tensor([1.0] + [0.0] * 99))
        return (drawing, cls(3, **settings))

    def _choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | None]:
        size = num_examples(batch)
        self._is_uniform = not self.pays(size)
        if self._is_uniform:
            return self._uniform(model, batch, size), None
        spread = _Spread(raw_scores(self._score, model, batch))
        self._learn(spread)
        return self._draw(spread.scores)

    def _draw(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Indices drawn in proportion to the scores, and their weights."""
        uniforms = self._draws.uniform(self._num_drawn(), scores.device)
        indices = draw_by(scores, uniforms)
        weights = scores.mean() / scores[indices]
        return indices, weights.float()

    def _uniform(self, model: nn.Module, batch: Batch, size: int) -> torch.Tensor:
        """A random part of the batch, scored now and then."""
        device, drawn = device_of(model), self._num_drawn()
        if size <= drawn:
            indices = torch.arange(size, device=device)
        else:
            indices = self._draws.uniform(size, device).argsort()[:drawn]
        if self._is_probing():
            self._learn(_Spread(raw_scores(self._score, model, take(batch, indices))))
        return indices

    def _is_probing(self) -> bool:
        if self._is_told or self._probe_every is None:
            return False
        is_due = self._num_unprobed % self._probe_every == 0
        self._num_unprobed += 1
        return is_due

    def _learn(self, spread: "_Spread") -> None:
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
        # One transfer for everything that is asked about the scores.
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
        # Scores that are all zero say nothing: every example is drawn alike.
        self.scores = values if mean > 0 else torch.ones_like(values)
        self.tau: float = square**0.5 / mean if mean > 0 else 1.0


def draw_by(scores: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Index i where a uniform number falls into the i-th of intervals as long as the scores."""
    ends = scores.cumsum(0)
    total = ends[-1]
    # A product rounded up to the total would lie past the last interval that is not empty.
    points = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(ends, points, right=True)

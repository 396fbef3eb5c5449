"""The gradient noise scale: how large a batch is worth its examples.

With G the gradient of the mean loss over all data and S the covariance of single examples' gradients, a batch of B has
a gradient of mean square |G|^2 + tr(S) / B, and a single example one of |G|^2 + tr(S). Both are seen in every training
step, and two equations give two unknowns without bias:

    tr(S) = B / (B - 1) (mean_i |g_i|^2 - |g|^2)        |G|^2 = (B |g|^2 - mean_i |g_i|^2) / (B - 1)

where g is the mean of the g_i. Their ratio is the noise scale. A single step's is a ratio of noisy numbers, so both are
smoothed over steps before they are divided.
"""

import math
from typing import final

import torch

from gradorder import checks
from gradorder.norms.observe import Observation
from gradorder.ranks import Ranks

_ROUNDING = 0.05
"""Of gradients in half precision, relative; a sum in place of a mean is off by the batch size."""


@final
class NoiseScale:
    """B = tr(S) / |G|^2 over the steps of a training run.

    Below it, twice the batch brings almost twice the progress of a step; far above it, almost nothing.

    Args:
        smoothing: the share of the old value that stays at each step, in [0, 1); 0.99: over about a hundred steps.

    Example:
        >>> from torch import nn
        >>> from torch.nn import functional as F
        >>> import gradorder as go
        >>> model, noise = nn.Linear(4, 3), NoiseScale()
        >>> with go.observe_gradient_norms(model, batch_gradient=True) as seen:
        ...     for _ in range(20):
        ...         x, y = torch.randn(16, 4), torch.randint(3, (16,))
        ...         seen.losses(F.cross_entropy(model(x), y, reduction="none")).mean().backward()
        ...         noise.update(seen)
        >>> noise.num_steps
        20

    Reference: McCandlish, Kaplan, Amodei and the OpenAI Dota Team (2018), An Empirical Model of Large-Batch Training.
    """

    def __init__(self, smoothing: float = 0.99) -> None:
        if not checks.is_number(smoothing) or not 0 <= smoothing < 1:
            raise ValueError(f"smoothing must be in [0, 1), got {smoothing!r}")
        self._smoothing = smoothing
        self._noise = self._signal = self._weight = 0.0
        self._batch_size = 0
        self._num_left_out = 0
        self.num_steps = 0
        self.last = math.nan
        """tr(S) / |G|^2 of the last step alone."""

    def update(self, seen: Observation) -> None:
        """Take in the training step that was just observed.

        A step with a gradient that is not finite, as `GradScaler` makes them, is left out and counted in the text.

        With several processes call it on all of them: each has a slice of the batch, and their estimates are averaged.
        """
        self.add(seen.norms, seen.batch_gradient_norm)

    def add(self, norms: torch.Tensor, batch_gradient_norm: torch.Tensor | float) -> None:
        """The same from numbers: the norm of each example's gradient, and that of their mean.

        Raises:
            ValueError: there is one example only, whose gradient says nothing about noise; a norm is negative; or the
                second is larger than the mean of the first, as that of a mean never is.
        """
        ranks = Ranks.of_process_group()
        with ranks.failing_together("NoiseScale.add"):
            each, whole = _checked(norms, batch_gradient_norm)
        size = len(each)
        square, whole_square = float(each.square().mean()), whole * whole
        noise, signal = size / (size - 1) * (square - whole_square), (size * whole_square - square) / (size - 1)
        if ranks.is_connected:
            numbers = torch.tensor([noise, signal], dtype=torch.float64)
            gathered = ranks.gathered(torch.arange(2), numbers)[1].view(-1, 2)
            noise, signal = gathered.mean(0).tolist()
        self._batch_size = size * ranks.num if ranks.is_connected else size
        self._smooth(noise, signal)

    def _smooth(self, noise: float, signal: float) -> None:
        if not (math.isfinite(noise) and math.isfinite(signal)):  # on one process is on all: the mean is theirs
            self._num_left_out += 1
            self.last = math.nan
            return
        self._noise = self._smoothing * self._noise + (1 - self._smoothing) * noise
        self._signal = self._smoothing * self._signal + (1 - self._smoothing) * signal
        self._weight = self._smoothing * self._weight + (1 - self._smoothing)
        self.last = noise / signal if signal > 0 else math.nan
        self.num_steps += 1

    @property
    def value(self) -> float:
        """The smoothed noise scale in examples; NaN while the gradient cannot be told from its noise."""
        return self._noise / self._signal if self._signal > 0 else math.nan

    @property
    def noise(self) -> float:
        """tr(S), smoothed."""
        return self._noise / self._weight if self._weight else math.nan

    @property
    def signal(self) -> float:
        """|G|^2, smoothed."""
        return self._signal / self._weight if self._weight else math.nan

    def __str__(self) -> str:
        """What it says about the batch size, in one sentence, and how many steps were left out."""
        if not self._num_left_out:
            return self._verdict()
        return f"{self._verdict()} Steps left out, with a gradient that was not finite: {self._num_left_out}."

    def _verdict(self) -> str:
        if not self.num_steps:
            return "No step has been taken in: no batch size follows."
        if math.isnan(self.value):
            return f"After {self.num_steps} steps the gradient cannot be told from its noise: no batch size follows."
        size, value = self._batch_size, self.value
        about = f"The noise scale is about {value:.3g} examples, the batch has {size}"
        if size > 2 * value:
            return f"{about}: a smaller batch would spend fewer examples on the same progress."
        if size < value / 2:
            return f"{about}: a larger batch would make more progress with each step, for hardly more examples."
        return f"{about}: the two are about equal, so neither steps nor examples are wasted."


def _checked(norms: torch.Tensor, batch_gradient_norm: torch.Tensor | float) -> tuple[torch.Tensor, float]:
    """Both in double precision; what is not finite is not refused."""
    each = torch.as_tensor(norms).detach().double()
    if each.ndim != 1 or len(each) < 2:  # noqa: PLR2004 - noise is a difference
        raise ValueError(f"norms must hold at least two examples' norms, shape (B,), got shape {tuple(each.shape)}")
    if bool((each < 0).any()):
        raise ValueError(f"norms must not be negative, got {float(each.min())}")
    whole = float(batch_gradient_norm)
    if whole < 0:
        raise ValueError(f"batch_gradient_norm must not be negative, got {whole}")
    mean = float(each.mean())
    if (1 + _ROUNDING) * mean < whole < math.inf:  # a sum of finite gradients may have overflowed
        raise ValueError(
            f"batch_gradient_norm must be the norm of the mean of the examples' gradients, which is never larger than "
            f"the mean of their norms, here {mean:.6g}, got {whole:.6g}: was it the norm of their sum?"
        )
    return each, whole

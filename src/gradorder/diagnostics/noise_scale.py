"""The gradient noise scale: an estimate of the batch size above which larger batches hardly help.

With G the gradient of the mean loss over all data and S the covariance of the per-example gradients, the squared norm
of a batch gradient has the mean |G|^2 + tr(S) / B, and that of a single example |G|^2 + tr(S). A training step shows
both, and solving the two equations gives unbiased estimates:

    tr(S) = B / (B - 1) (mean_i |g_i|^2 - |g|^2)        |G|^2 = (B |g|^2 - mean_i |g_i|^2) / (B - 1)

where g is the mean of the g_i. The noise scale is their ratio. Both are smoothed over steps before the division,
because the ratio of a single step is far too noisy.
"""

import math
from collections.abc import Mapping
from typing import Any, Protocol, final

import torch

from gradorder import checks
from gradorder.ranks import Ranks

_ROUNDING = 0.05
"""The relative rounding error of half-precision gradients; a sum in place of a mean is off by the batch size."""


class ObservedStep(Protocol):
    """A training step observed by `observe_gradient_norms(model, batch_gradient=True)`."""

    @property
    def norms(self) -> torch.Tensor:
        """The gradient norm of each example, shape (B,)."""

    @property
    def batch_gradient_norm(self) -> torch.Tensor:
        """The norm of the mean gradient of the batch."""


@final
class NoiseScale:
    """Estimate the gradient noise scale tr(S) / |G|^2, in examples, over the steps of a training run.

    If the batch is much smaller than the noise scale, a batch twice as large makes almost twice the progress per step.
    If it is much larger, a smaller batch reaches the same loss with fewer examples.

    Args:
        smoothing: weight of the past in the moving averages, in [0, 1); 0.99 averages over about a hundred steps.

    Example:
        >>> from torch import nn
        >>> from torch.nn import functional as F
        >>> import gradorder as go
        >>> generator = torch.Generator().manual_seed(0)
        >>> model, noise = nn.Linear(4, 1), go.NoiseScale()
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        >>> with go.observe_gradient_norms(model, batch_gradient=True) as seen:
        ...     for _ in range(100):
        ...         x = torch.randn(64, 4, generator=generator)
        ...         losses = F.mse_loss(model(x).flatten(), x.sum(1), reduction="none")
        ...         optimizer.zero_grad()
        ...         seen.losses(losses).mean().backward()
        ...         noise.update(seen)
        ...         optimizer.step()
        >>> print(noise)  # doctest: +ELLIPSIS
        The noise scale is about ... examples and the batch has 64: a smaller batch would need fewer examples.
        >>> resumed = go.NoiseScale()
        >>> resumed.load_state_dict(noise.state_dict())  # from a checkpoint
        >>> resumed.value == noise.value
        True

    Reference: McCandlish, Kaplan, Amodei and the OpenAI Dota Team (2018), An Empirical Model of Large-Batch Training.
    """

    def __init__(self, smoothing: float = 0.99) -> None:
        if not checks.is_number(smoothing) or not 0 <= smoothing < 1:
            raise ValueError(f"smoothing must be in [0, 1), got {smoothing!r}")
        self._smoothing = float(smoothing)
        self._noise = self._signal = 0.0
        self._batch_size = 0
        self._num_skipped = 0
        self.num_steps = 0

    def update(self, seen: ObservedStep) -> None:
        """Add the training step that was just observed.

        Steps with a gradient that is not finite, as `GradScaler` produces them, are skipped and counted.

        With several processes, call it on all of them: each has a slice of the batch, and the estimates are averaged.
        """
        self.add(seen.norms, seen.batch_gradient_norm)

    def add(self, norms: torch.Tensor, batch_gradient_norm: torch.Tensor | float) -> None:
        """Add a training step from the gradient norm of each example and the norm of their mean gradient.

        Raises:
            ValueError: there is only one example; a norm is negative; or the norm of the mean gradient is larger than
                the mean of the norms, which is impossible.
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
        if not (math.isfinite(noise) and math.isfinite(signal)):  # the same on all ranks, as it is their mean
            self._num_skipped += 1
            return
        self._noise = self._smoothing * self._noise + (1 - self._smoothing) * noise
        self._signal = self._smoothing * self._signal + (1 - self._smoothing) * signal
        self.num_steps += 1

    @property
    def value(self) -> float:
        """The noise scale in examples; NaN as long as the gradient cannot be told from its noise."""
        return self._noise / self._signal if self._signal > 0 else math.nan

    @property
    def noise(self) -> float:
        """tr(S), smoothed; NaN before the first step."""
        return self._unbiased(self._noise)

    @property
    def signal(self) -> float:
        """|G|^2, smoothed; NaN before the first step."""
        return self._unbiased(self._signal)

    def _unbiased(self, average: float) -> float:
        """Correct a moving average for its start at zero."""
        return average / (1 - self._smoothing**self.num_steps) if self.num_steps else math.nan

    def state_dict(self) -> dict[str, float]:
        """Return the state as plain numbers, for a checkpoint."""
        return {
            "smoothing": self._smoothing,
            "noise": self._noise,
            "signal": self._signal,
            "batch_size": self._batch_size,
            "num_skipped": self._num_skipped,
            "num_steps": self.num_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of `state_dict`.

        Raises:
            ValueError: a number is missing, unknown or impossible, or was saved with another `smoothing`. Nothing has
                changed then.
        """
        if set(state) != set(self.state_dict()):
            raise ValueError(f"state must have the keys {sorted(self.state_dict())}, got {sorted(state)}")
        if state["smoothing"] != self._smoothing:
            raise ValueError(f"smoothing must be that of the saved state, {state['smoothing']}, got {self._smoothing}")
        for name in ("noise", "signal"):
            if not checks.is_number(state[name]) or not math.isfinite(state[name]):
                raise ValueError(f"{name} must be a finite number, got {state[name]!r}")
        counts = [checks.integer(name, state[name], minimum=0) for name in ("batch_size", "num_skipped", "num_steps")]
        self._noise, self._signal = float(state["noise"]), float(state["signal"])
        self._batch_size, self._num_skipped, self.num_steps = counts

    def __str__(self) -> str:
        """One sentence about the batch size, and the number of skipped steps."""
        if not self._num_skipped:
            return self._verdict()
        return f"{self._verdict()} Skipped steps, with a gradient that was not finite: {self._num_skipped}."

    def _verdict(self) -> str:
        if not self.num_steps:
            return "The noise scale is unknown: no step has been added."
        if math.isnan(self.value):
            return (
                f"After {self.num_steps} steps the gradient cannot be told from its noise: the noise scale is unknown."
            )
        size, value = self._batch_size, self.value
        about = f"The noise scale is about {value:.3g} examples and the batch has {size}"
        if size > 2 * value:
            return f"{about}: a smaller batch would need fewer examples."
        if size < value / 2:
            return f"{about}: a larger batch would need fewer steps and hardly more examples."
        return f"{about}: the batch size fits."


def _checked(norms: torch.Tensor, batch_gradient_norm: torch.Tensor | float) -> tuple[torch.Tensor, float]:
    """Return both in double precision; values that are not finite are allowed."""
    each = torch.as_tensor(norms).detach().double()
    if each.ndim != 1 or len(each) < 2:  # noqa: PLR2004 - a variance needs two
        raise ValueError(f"norms must have shape (B,) with at least two examples, got shape {tuple(each.shape)}")
    if bool((each < 0).any()):
        raise ValueError(f"norms must not be negative, got {float(each.min())}")
    whole = float(batch_gradient_norm)
    if whole < 0:
        raise ValueError(f"batch_gradient_norm must not be negative, got {whole}")
    mean = float(each.mean())
    if (1 + _ROUNDING) * mean < whole < math.inf:  # a sum of finite gradients may have overflowed
        raise ValueError(
            "batch_gradient_norm must be the norm of the mean gradient, which is never larger than the mean of the "
            f"norms, here {mean:.6g}, got {whole:.6g}. Is it the norm of their sum?"
        )
    return each, whole

"""The last score of every example, remembered from training."""

import math

import torch

from gradorder.errors import NonFiniteScoresError
from gradorder.precision import widened


class ScoreMemory:
    """One remembered score per example; NaN where an example was never scored.

    Scores on an accelerator stay there until they are read, so that a training step never waits for them.
    """

    def __init__(self, num_examples: int) -> None:
        self._num_examples = num_examples
        self._scores: torch.Tensor | None = None
        self._waiting: list[tuple[torch.Tensor, torch.Tensor]] = []

    def remember(self, indices: torch.Tensor, scores: torch.Tensor) -> None:
        """Keep the scores of these examples; NaN or infinity is refused, on an accelerator at the next read."""
        if scores.device.type == "cpu":
            self._write(indices, scores)
        else:
            self._waiting.append((indices, scores.clone()))

    def replace(self, scores: torch.Tensor) -> None:
        """Keep a new score for every example."""
        self._waiting.clear()
        self._scores = widened(scores.detach().to("cpu", copy=True))

    def known(self) -> torch.Tensor | None:
        """The scores with NaN for the unknown, None where nothing is remembered."""
        self._settle()
        return self._scores

    def restore(self, known: torch.Tensor | None) -> None:
        """Take what `known` gave."""
        self._waiting.clear()
        self._scores = None if known is None else widened(known.clone())

    def complete(self) -> torch.Tensor | None:
        """A finite score for every example: one never scored ranks as the hardest."""
        known = self.known()
        if known is None:
            return None
        unknown = known.isnan()
        if not bool(unknown.any()):
            return known.clone()
        largest = known[~unknown].max()
        harder = torch.nextafter(largest, torch.tensor(math.inf, dtype=known.dtype))
        return known.masked_fill(unknown, harder.clamp(max=torch.finfo(known.dtype).max).item())

    def _settle(self) -> None:
        if self._waiting:
            indices = torch.cat([indices for indices, _ in self._waiting])
            scores = torch.cat([scores for _, scores in self._waiting])
            self._waiting.clear()
            self._write(indices, scores.cpu())

    def _write(self, indices: torch.Tensor, scores: torch.Tensor) -> None:
        scores = widened(scores)
        if not bool(torch.isfinite(scores).all()):
            raise NonFiniteScoresError.of(scores, indices)
        if self._scores is None:
            self._scores = torch.full((self._num_examples,), math.nan)
        self._scores = self._scores.to(torch.promote_types(self._scores.dtype, scores.dtype))
        self._scores[indices] = scores.to(self._scores.dtype)

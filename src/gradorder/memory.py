"""The last score of every example, remembered from training."""

import math

import torch

from gradorder.errors import NonFiniteScoresError
from gradorder.precision import widened
from gradorder.ranks import Ranks

_MOST_WAITING = 1000  # batches; small tensors are costly to keep
_ALONE = Ranks(num=1, rank=0, is_connected=False)


class ScoreMemory:
    """One remembered score per example; NaN where an example was never scored.

    Scores wait until `settle`, so that a training step takes no longer than it must: those on an accelerator stay
    there. With several processes each keeps its own until then, and `settle` brings them together: call it on all,
    before reading.
    """

    def __init__(self, num_examples: int, ranks: Ranks = _ALONE) -> None:
        self._num_examples = num_examples
        self._ranks = ranks
        self._scores: torch.Tensor | None = None
        self._waiting: list[tuple[torch.Tensor, torch.Tensor]] = []

    def remember(self, indices: torch.Tensor, scores: torch.Tensor) -> None:
        """Keep the scores of these examples; NaN or infinity is refused, on an accelerator by `settle`."""
        is_near = scores.device.type == "cpu"
        self._waiting.append((indices, _finite(indices, widened(scores)).clone() if is_near else scores.clone()))
        if is_near and not self._ranks.is_connected and len(self._waiting) == _MOST_WAITING:
            self.settle()

    def replace(self, scores: torch.Tensor) -> None:
        """Keep a new score for every example."""
        self._waiting.clear()
        self._scores = widened(scores.detach().to("cpu", copy=True))

    def known(self) -> torch.Tensor | None:
        """The scores with NaN for the unknown, None where nothing is remembered."""
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

    def settle(self) -> None:
        """Write down what waits, on all processes."""
        if not self._ranks.is_connected:
            self._settle_alone()
            return
        steps_and_indices, scores = self._ranks.gathered(*self._taken())
        if len(scores):
            # As one process would have written them: step by step, and in a step the slices in the order of the ranks.
            order = steps_and_indices[:, 0].argsort(stable=True)
            indices, scores = steps_and_indices[order, 1], scores[order]
            self._write(indices, _finite(indices, widened(scores)))

    def _settle_alone(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            indices, scores = (torch.cat(parts) for parts in zip(*waiting, strict=True))
            self._write(indices, _finite(indices, widened(scores).cpu()))

    def _taken(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What waits here, as rows (step, index) and their scores."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return torch.empty(0, 2, dtype=torch.int64), torch.empty(0)
        rows = [torch.stack([torch.full_like(indices, step), indices], 1) for step, (indices, _) in enumerate(waiting)]
        return torch.cat(rows), torch.cat([widened(scores) for _, scores in waiting]).cpu()

    def _write(self, indices: torch.Tensor, scores: torch.Tensor) -> None:
        if self._scores is None:
            self._scores = torch.full((self._num_examples,), math.nan)
        if self._scores.dtype != scores.dtype:
            self._scores = self._scores.to(torch.promote_types(self._scores.dtype, scores.dtype))
        # In numpy the last of several scores for one example stays; torch leaves it open which.
        self._scores.numpy()[indices.numpy()] = scores.numpy()


def _finite(indices: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Scores on the CPU, in float32 or better."""
    # The sum of squares is cheap in every training step; only where it is not finite are the numbers looked at.
    if not math.isfinite(scores.dot(scores)) and not bool(scores.isfinite().all()):
        raise NonFiniteScoresError.of(scores, indices)
    return scores

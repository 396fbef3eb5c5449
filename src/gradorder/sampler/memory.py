"""Score memory: the last score of every example, remembered from training."""

import math

import numpy as np
import torch

from gradorder import checks
from gradorder.checks import widened
from gradorder.errors import NonFiniteScoresError
from gradorder.ranks import Ranks, world_size
from gradorder.sampler.stratified import Indices

_MOST_WAITING = 1000
"""Waiting batches before they are merged: few enough to bound the memory, enough to make merging rare."""

_ALONE = Ranks(num=1, rank=0, is_connected=False)


class ScoreMemory:
    """One remembered score per example; NaN for an example that was never scored.

    Scores on the CPU of a single process are written at once. Others wait until `settle`, so that `step` does not wait:
    scores on an accelerator stay there, and with several processes each keeps its own until `settle` brings them
    together (call it on all of them before reading). The waiting scores are bounded by one per example and a fixed
    number of batches.
    """

    def __init__(self, num_examples: int, ranks: Ranks = _ALONE) -> None:
        self._num_examples = num_examples
        self._ranks = ranks
        self._scores: torch.Tensor | None = None
        self._waiting: list[tuple[Indices, Indices, torch.Tensor]] = []
        self._num_steps = 0  # since `settle`: the last of several scores for one example wins

    def remember(self, indices: Indices, scores: torch.Tensor) -> None:
        """Remember the scores of these examples; NaN and infinity are refused, on an accelerator by `settle`."""
        if self._ranks.num > 1 and not self._ranks.is_connected:
            raise RuntimeError(
                f"step(scores) needs a process group of num_replicas={self._ranks.num} to bring the scores together, "
                f"and there is one of {world_size()}: pass scores to set_epoch instead"
            )
        if not scores.is_floating_point():
            scores = _exact(scores.cpu())
        if scores.device.type == "cpu":
            scores = _finite(indices, widened(scores))
            if not self._ranks.is_connected and not self._waiting:
                self._write(indices, scores)
                return
        steps = np.full(len(indices), self._num_steps)
        self._num_steps += 1
        self._waiting.append((steps, indices, scores.clone()))
        if len(self._waiting) == _MOST_WAITING:
            self._waiting = [self._merge()]

    def known(self) -> torch.Tensor | None:
        """The scores, NaN for examples that were never scored; None if nothing is remembered."""
        return self._scores

    @property
    def is_empty(self) -> bool:
        """Whether this process remembers nothing."""
        return self._scores is None and not self._waiting

    def known_without(self, indices: torch.Tensor) -> torch.Tensor | None:
        """The scores as if these examples had never been scored."""
        if self._scores is None or len(indices) == 0:
            return self._scores
        left = self._scores.index_fill(0, indices, math.nan)
        return None if bool(left.isnan().all()) else left

    def forget(self, indices: torch.Tensor) -> None:
        """Forget the scores of these examples."""
        self._scores = self.known_without(indices)

    def restore(self, known: torch.Tensor | None) -> None:
        """Replace all scores by these."""
        self._waiting.clear()
        self._scores = None if known is None else _exact(known.to("cpu", copy=True))

    def settle(self) -> None:
        """Write down the waiting scores, on all processes. If some are not finite, nothing changes."""
        if not self._waiting and not self._ranks.is_connected:
            return
        empty = np.empty(0, dtype=np.int64)
        steps, where, scores = self._merge() if self._waiting else (empty, empty, torch.empty(0))
        scores = scores.cpu()
        if self._ranks.is_connected:
            rows, scores = self._ranks.gathered(torch.from_numpy(np.stack([steps, where], 1)), scores)
            # As one process would have written them: step by step, and in a step the slices in the order of the ranks.
            order = rows[:, 0].argsort(stable=True)
            where, scores = rows[order, 1].numpy(), scores[order]
        scores = _finite(where, scores)
        self._waiting, self._num_steps = [], 0
        if len(scores):
            self._write(where, scores)

    def _merge(self) -> tuple[Indices, Indices, torch.Tensor]:
        """The waiting scores as one batch, with the last score of each example; does not wait for an accelerator."""
        steps, indices = (np.concatenate([each[part] for each in self._waiting]) for part in (0, 1))
        waiting = [widened(each[2]) for each in self._waiting]
        is_mixed = len({scores.device for scores in waiting}) > 1
        scores = torch.cat([each.cpu() for each in waiting] if is_mixed else waiting)
        _, last = np.unique(indices[::-1], return_index=True)
        chosen = np.sort(len(indices) - 1 - last)
        return steps[chosen], indices[chosen], scores[torch.from_numpy(chosen).to(scores.device)]

    def _write(self, indices: Indices, scores: torch.Tensor) -> None:
        if self._scores is None:
            self._scores = torch.full((self._num_examples,), math.nan)
        if self._scores.dtype != scores.dtype:
            self._scores = self._scores.to(torch.promote_types(self._scores.dtype, scores.dtype))
        # In numpy the last of several scores for one example stays; torch leaves it open which.
        self._scores.numpy()[indices] = scores.numpy()


def _exact(scores: torch.Tensor) -> torch.Tensor:
    """On the CPU: in float32 or better, whole numbers in float64, as float32 would round those above 2^24."""
    return widened(scores) if scores.is_floating_point() else scores.double()


def _finite(indices: Indices, scores: torch.Tensor) -> torch.Tensor:
    """Scores on the CPU, in float32 or better."""
    if not checks.are_finite(scores):
        raise NonFiniteScoresError.of(scores, torch.from_numpy(indices))
    return scores

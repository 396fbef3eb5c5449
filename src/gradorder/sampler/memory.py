"""Score memory: the last score of every example, remembered from training."""

import math

import numpy as np
import torch

from gradorder import checks
from gradorder.checks import widened
from gradorder.errors import NonFiniteScoresError
from gradorder.orderings.ordering import has_duplicates
from gradorder.ranks import Ranks, world_size
from gradorder.sampler.stratified import Indices

_MAX_PENDING = 1000
"""The number of pending batches before they are merged: this bounds the memory and keeps merging rare."""

Batch = tuple[Indices, Indices, torch.Tensor]
"""Steps, examples and scores, one of each per entry."""

_SINGLE_PROCESS = Ranks(num=1, rank=0, is_connected=False)


class ScoreMemory:
    """Stores the last score of every example; NaN for an example that was never scored.

    With a single process, scores on the CPU are stored at once. All other scores are pending until `settle`, so that
    `step` does not block: scores on an accelerator stay there, and each process keeps its own. Call `settle` on all
    processes before reading; it gathers and stores the pending scores. The memory for pending scores is bounded by two
    scores per example and a fixed number of batches.
    """

    def __init__(self, num_examples: int, ranks: Ranks = _SINGLE_PROCESS) -> None:
        self._num_examples = num_examples
        self._ranks = ranks
        self._scores: torch.Tensor | None = None
        self._pending: list[Batch] = []
        self._num_merged = 0  # of the pending batches, from the first on
        self._num_steps = 0  # since `settle`; if an example has several scores, the last one is stored

    def remember(self, indices: Indices, scores: torch.Tensor) -> None:
        """Store the scores of these examples. NaN and infinity raise; on an accelerator, only in `settle`."""
        if self._ranks.num > 1 and not self._ranks.is_connected:
            raise RuntimeError(
                f"step(scores) needs a process group of num_replicas={self._ranks.num} to gather the scores, but "
                f"the process group has size {world_size()}. Initialize it, or pass scores to set_epoch instead"
            )
        if not scores.is_floating_point():
            scores = _exact(scores.cpu())
        if scores.device.type == "cpu":
            scores = _finite(indices, widened(scores))
            if not self._ranks.is_connected and not self._pending:
                self._write(indices, scores)
                return
        steps = np.full(len(indices), self._num_steps)
        self._num_steps += 1
        self._pending.append((steps, indices, scores.clone()))
        if len(self._pending) - self._num_merged == _MAX_PENDING:
            self._merge_latest()

    def known(self) -> torch.Tensor | None:
        """Return the scores, NaN for examples that were never scored; None if there are no scores."""
        return self._scores

    @property
    def is_empty(self) -> bool:
        """Whether this process has no scores, stored or pending."""
        return self._scores is None and not self._pending

    def known_without(self, indices: torch.Tensor) -> torch.Tensor | None:
        """Return the scores as if these examples had never been scored."""
        if self._scores is None or len(indices) == 0:
            return self._scores
        left = self._scores.index_fill(0, indices, math.nan)
        return None if bool(left.isnan().all()) else left

    def forget(self, indices: torch.Tensor) -> None:
        """Forget the scores of these examples."""
        self._scores = self.known_without(indices)

    def restore(self, known: torch.Tensor | None) -> None:
        """Replace all scores, stored and pending, by these."""
        self._pending, self._num_merged = [], 0
        self._scores = None if known is None else _exact(known.to("cpu", copy=True))

    def settle(self) -> None:
        """Store the pending scores of all processes. Raises without any change if some are not finite."""
        if not self._pending and not self._ranks.is_connected:
            return
        empty = np.empty(0, dtype=np.int64)
        steps, where, scores = self._merge() if self._pending else (empty, empty, torch.empty(0))
        scores = scores.cpu()
        if self._ranks.is_connected:
            rows, scores = self._ranks.gathered(torch.from_numpy(np.stack([steps, where], 1)), scores)
            # The order in which a single process would have stored them: by step, then by rank.
            order = rows[:, 0].argsort(stable=True)
            where, scores = rows[order, 1].numpy(), scores[order]
        scores = _finite(where, scores)
        self._pending, self._num_merged, self._num_steps = [], 0, 0
        if len(scores):
            self._write(where, scores)

    def _merge_latest(self) -> None:
        """Concatenate the batches since the last merge; only if examples occur twice, keep the last score of each.

        Choosing on an accelerator waits for it, so it happens only in an epoch that is repeated without `settle`.
        """
        merged, latest = self._pending[: self._num_merged], self._pending[self._num_merged :]
        self._pending = [*merged, _concatenated(latest)]
        if sum(len(indices) for _, indices, _ in self._pending) > 2 * self._num_examples:
            self._pending = [self._merge()]
        self._num_merged = len(self._pending)

    def _merge(self) -> Batch:
        """Merge the pending scores into one batch with the last score of each example."""
        steps, indices, scores = _concatenated(self._pending)
        if not has_duplicates(indices, self._num_examples):  # the common case, in linear time
            return steps, indices, scores
        _, last = np.unique(indices[::-1], return_index=True)
        chosen = np.sort(len(indices) - 1 - last)
        return steps[chosen], indices[chosen], scores[torch.from_numpy(chosen).to(scores.device)]

    def _write(self, indices: Indices, scores: torch.Tensor) -> None:
        if self._scores is None:
            self._scores = torch.full((self._num_examples,), math.nan)
        if self._scores.dtype != scores.dtype:
            self._scores = self._scores.to(torch.promote_types(self._scores.dtype, scores.dtype))
        # If an index occurs twice, numpy stores the last score; in torch the result is undefined.
        self._scores.numpy()[indices] = scores.numpy()


def _concatenated(batches: list[Batch]) -> Batch:
    """Concatenate pending batches, in the widest type of their scores."""
    steps, indices = (np.concatenate([each[part] for each in batches]) for part in (0, 1))
    pending = [widened(scores) for _, _, scores in batches]
    is_mixed = len({scores.device for scores in pending}) > 1
    return steps, indices, torch.cat([scores.cpu() for scores in pending] if is_mixed else pending)


def _exact(scores: torch.Tensor) -> torch.Tensor:
    """Convert integers to float64, because float32 would round those above 2^24, and half precision to float32."""
    return widened(scores) if scores.is_floating_point() else scores.double()


def _finite(indices: Indices, scores: torch.Tensor) -> torch.Tensor:
    """Return the scores, which are on the CPU, or raise if some are not finite."""
    if not checks.are_finite(scores):
        raise NonFiniteScoresError.of(scores, torch.from_numpy(indices))
    return scores

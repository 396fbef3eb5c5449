"""The plan of one epoch: the examples of every batch."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

_INDICES_AT_ONCE = 2**16  # as Python ints; all of a large epoch at once would take 32 bytes for each


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """The global sequence of an epoch, and one rank's part of it.

    Batch b is `sequence[b * batch_size : (b + 1) * batch_size]`, the same on every rank; a rank takes its slice
    as `torch.tensor_split` cuts it. Weights, where there are any, stand beside the sequence.
    """

    epoch: int
    sequence: torch.Tensor
    batch_size: int
    num_replicas: int = 1
    rank: int = 0
    weights: torch.Tensor | None = None

    @cached_property
    def fingerprint(self) -> int:
        """A number that two plans share only if their sequences and weights are the same: what processes compare."""
        digest = hashlib.blake2b(self.sequence.numpy().tobytes(), digest_size=7)
        if self.weights is not None:
            digest.update(self.weights.numpy().tobytes())
        return int.from_bytes(digest.digest())

    @property
    def num_batches(self) -> int:
        """Global batches of the epoch."""
        return -(-len(self.sequence) // self.batch_size)

    @property
    def num_examples_of_rank(self) -> int:
        """Examples of the epoch for this rank."""
        num_full, tail = divmod(len(self.sequence), self.batch_size)
        first, last = self._slice_of(tail)
        return num_full * (self.batch_size // self.num_replicas) + last - first

    def batch_length(self, batch: int) -> int:
        """Examples in global batch number `batch`."""
        return min(self.batch_size, len(self._numbers) - batch * self.batch_size)

    @cached_property
    def _numbers(self) -> npt.NDArray[np.int64]:
        """The sequence for numpy, which cuts slices and tells its length in a tenth of torch's time."""
        return self.sequence.numpy()

    def examples(self, batch: int) -> npt.NDArray[np.int64]:
        """This rank's examples of batch number `batch`."""
        return self._numbers[self._places(batch)]

    def batch_weights(self, batch: int) -> torch.Tensor:
        """The weights of this rank's examples of batch number `batch`, a copy."""
        places = self._places(batch)
        return torch.ones(places.stop - places.start) if self.weights is None else self.weights[places].clone()

    def batches(self, start: int) -> Iterator[list[int]]:
        """This rank's examples batch by batch, from batch number `start` on."""
        size = self.batch_size
        stride = size * max(1, _INDICES_AT_ONCE // size)
        for begin in range(start * size, len(self._numbers), stride):
            several = self._numbers[begin : begin + stride].tolist()
            for position in range(0, len(several), size):
                batch = several[position : position + size]
                yield batch if self.num_replicas == 1 else batch[slice(*self._slice_of(len(batch)))]

    def _places(self, batch: int) -> slice:
        start = batch * self.batch_size
        length = self.batch_length(batch)
        if self.num_replicas == 1:
            return slice(start, start + length)
        first, last = self._slice_of(length)
        return slice(start + first, start + last)

    def _slice_of(self, length: int) -> tuple[int, int]:
        share, longer = divmod(length, self.num_replicas)
        first = self.rank * share + min(self.rank, longer)
        return first, first + share + (self.rank < longer)

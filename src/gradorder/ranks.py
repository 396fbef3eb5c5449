"""Communication between the processes of a run: gathering scores, comparing settings and raising errors together.

All messages are small or sent once per epoch. Nothing is pickled. Integers and scores are sent separately, because
float32 cannot represent all integers above 2^24.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import torch
import torch.distributed as dist

from gradorder import checks
from gradorder.errors import RankError

_SCORE_TYPES = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Ranks:
    """This process as rank `rank` of `num`.

    If `is_connected` is False, there is no process group, and every exchange returns this process's own values.
    """

    num: int
    rank: int
    is_connected: bool

    @classmethod
    def of_process_group(cls) -> Self:
        """Return this rank of the default process group; a single process if there is no group."""
        return cls.numbered(world_size(), own_rank())

    @classmethod
    def numbered(cls, num: int, rank: int) -> Self:
        """Return rank `rank` of `num`, connected if the default process group has this size and rank."""
        return cls(num, rank, is_connected=num > 1 and (num, rank) == (world_size(), own_rank()))

    @classmethod
    def sharing(cls, batch_size: int, num: int | None, rank: int | None) -> Self:
        """Return this rank of the `num` processes that share every batch; defaults to the default process group.

        With `num=1` this process gets whole batches, even if there is a larger process group.
        """
        replicas = checks.integer("num_replicas", world_size() if num is None else num, minimum=1)
        default = 0 if replicas == 1 else own_rank()
        number = checks.integer("rank", default if rank is None else rank, minimum=0)
        if number >= replicas:
            raise ValueError(f"rank must be below num_replicas={replicas}, got {number}")
        if batch_size % replicas:
            raise ValueError(f"batch_size must be divisible by num_replicas={replicas}, got {batch_size}")
        return cls.numbered(replicas, number)

    def agree(self, what: str, **values: int) -> None:
        """Raise on every process if a value is not the same on all of them."""
        for name, row in zip(values, self._exchange(list(values.values())).T.tolist(), strict=True):
            if len(set(row)) > 1:
                listed = ", ".join(f"{value} on rank {rank}" for rank, value in enumerate(row))
                raise RankError(f"{what} must be the same on all processes, but {name} is {listed}")

    @contextmanager
    def failing_together(self, what: str) -> Iterator[None]:
        """Raise on all processes if one of them fails inside this context, so that the others do not hang."""
        if not self.is_connected:
            yield
            return
        try:
            yield
        except Exception:
            self._exchange([1])
            raise
        failed = self._exchange([0]).flatten().nonzero().flatten().tolist()
        if failed:
            raise RankError(f"{what} failed on rank {', '.join(map(str, failed))}: see the error there")

    def gathered(self, indices: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of all processes, ordered by rank.

        Args:
            indices: integers, shape (K, ...); K may differ between processes.
            scores: floats, shape (K, ...); the result has the widest type of all processes.
        """
        if not self.is_connected:
            return indices, scores
        sizes = self._exchange([len(scores), _SCORE_TYPES.index(scores.dtype)])
        widest = _SCORE_TYPES[int(sizes[:, 1].max())]
        lengths = sizes[:, 0].tolist()
        return self._concatenate(indices, lengths), self._concatenate(scores.to(widest), lengths)

    def _exchange(self, numbers: list[int]) -> torch.Tensor:
        """Return the numbers of all processes, one row per rank."""
        own = torch.tensor(numbers, dtype=torch.int64)
        return torch.stack(_all_gather(own, self.num)) if self.is_connected else own[None]

    def _concatenate(self, rows: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """Concatenate the rows of all processes, padded for all_gather, which needs equal shapes."""
        padded = rows.new_zeros(max(lengths), *rows.shape[1:])
        padded[: len(rows)] = rows
        received = _all_gather(padded, self.num)
        return torch.cat([part[:length] for part, length in zip(received, lengths, strict=True)])


def world_size() -> int:
    """Return the size of the default process group; 1 if there is none."""
    return dist.get_world_size() if _is_initialized() else 1


def own_rank() -> int:
    """Return the rank of this process in the default process group; 0 if there is none."""
    return dist.get_rank() if _is_initialized() else 0


def _is_initialized() -> bool:
    return dist.is_available() and dist.is_initialized()


def _all_gather(own: torch.Tensor, num: int) -> list[torch.Tensor]:
    device = exchange_device(dist.get_backend_config())
    sent = own.to(device).contiguous()
    received = [torch.empty_like(sent) for _ in range(num)]
    dist.all_gather(received, sent)
    return [part.to(own.device) for part in received]


def exchange_device(backend_config: str) -> torch.device:
    """Return the device that the backend communicates on: the CPU if it supports it, else the current accelerator.

    Example:
        >>> exchange_device("cpu:gloo,cuda:nccl")
        device(type='cpu')
    """
    types = [part.split(":")[0] for part in backend_config.split(",")]
    if "cpu" in types:
        return torch.device("cpu")
    return torch.device(types[0], torch.get_device_module(types[0]).current_device())

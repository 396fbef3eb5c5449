"""The processes of a run: what they tell each other, and the errors that they raise together.

Everything exchanged here is small or once per epoch. Nothing is pickled, and whole numbers and scores travel apart:
an index packed into a float tensor is wrong above 2^24.
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
    """One process among `num`.

    Where `is_connected` is False there is nobody to talk to, and every exchange is with oneself.
    """

    num: int
    rank: int
    is_connected: bool

    @classmethod
    def of_process_group(cls) -> Self:
        """The processes of the default process group; one process where there is none."""
        return cls.numbered(world_size(), own_rank())

    @classmethod
    def numbered(cls, num: int, rank: int) -> Self:
        """Rank `rank` of `num`, connected if the default process group is just that."""
        return cls(num, rank, is_connected=num > 1 and (num, rank) == (world_size(), own_rank()))

    @classmethod
    def sharing(cls, batch_size: int, num: int | None, rank: int | None) -> Self:
        """This process of `num` that share every batch; where not given, as the default process group has it.

        For one process a batch is whole, whatever process group there is.
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
                told = ", ".join(f"{value} on rank {rank}" for rank, value in enumerate(row))
                raise RankError(f"{what} must be the same on all processes, but {name} is {told}")

    @contextmanager
    def failing_together(self, what: str) -> Iterator[None]:
        """An error on one process inside becomes an error on all, instead of leaving the others waiting for it."""
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
        """The rows of all processes, in the order of the ranks.

        Args:
            indices: whole numbers, shape (K, ...) with any K on each process.
            scores: floats, shape (K, ...); the widest type of all processes wins.
        """
        if not self.is_connected:
            return indices, scores
        sizes = self._exchange([len(scores), _SCORE_TYPES.index(scores.dtype)])
        widest = _SCORE_TYPES[int(sizes[:, 1].max())]
        lengths = sizes[:, 0].tolist()
        return self._concatenate(indices, lengths), self._concatenate(scores.to(widest), lengths)

    def _exchange(self, numbers: list[int]) -> torch.Tensor:
        """The numbers of every process, one row for each rank."""
        own = torch.tensor(numbers, dtype=torch.int64)
        return torch.stack(_all_gather(own, self.num)) if self.is_connected else own[None]

    def _concatenate(self, rows: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """Every process sends as many rows as the longest: that is what all_gather wants."""
        padded = rows.new_zeros(max(lengths), *rows.shape[1:])
        padded[: len(rows)] = rows
        received = _all_gather(padded, self.num)
        return torch.cat([part[:length] for part, length in zip(received, lengths, strict=True)])


def world_size() -> int:
    """The number of processes of the default process group; 1 where there is none."""
    return dist.get_world_size() if _is_initialized() else 1


def own_rank() -> int:
    """The rank of this process in the default process group; 0 where there is none."""
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
    """Where tensors must be to travel: the CPU if the backend takes them there, else the accelerator in use.

    Example:
        >>> exchange_device("cpu:gloo,cuda:nccl")
        device(type='cpu')
    """
    types = [part.split(":")[0] for part in backend_config.split(",")]
    if "cpu" in types:
        return torch.device("cpu")
    return torch.device(types[0], torch.get_device_module(types[0]).current_device())

"""The processes that torchrun starts: they train one network together; the first leads, the others follow.

Everything here is for all of them at once, and with one process does nothing: the rows are then what they always were.
"""

import ctypes
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from gradorder.errors import RankError
from gradorder.ranks import Ranks, own_rank, world_size
from gradorder_lab.errors import LabError

T = TypeVar("T")

BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
"""Where the networks are -> what the gradients travel by. What is said here always travels by gloo."""


def num_launched() -> int:
    """How many processes torchrun started with this one; 1 without torchrun."""
    return int(os.environ["WORLD_SIZE"]) if dist.is_available() and dist.is_torchelastic_launched() else 1


@contextmanager
def process_group(device: str) -> Iterator[None]:
    """Form one group with the other processes of torchrun, if there are any.

    Raises:
        LabError: the device does not serve, or another process has ended. torchrun then ends them all.
    """
    if num_launched() == 1:
        yield
        return
    if device not in BACKENDS:
        raise LabError(f"--device must be one of {', '.join(BACKENDS)} under torchrun, got {device}")
    if device == "cuda":
        _take_accelerator(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(BACKENDS[device])
    _keep(dist.group.WORLD)
    try:
        yield
        leave_group()
    except RankError as error:
        raise LabError(str(error)) from error
    except RuntimeError as error:
        if "Connection closed by peer" not in str(error):
            raise
        raise LabError(f"rank {own_rank()} stops: another process has ended, see its message") from error
    finally:
        if device == "cpu":  # with nccl, leaving while others wait may wait for them; the end of the process does not
            leave_group()


def leave_group() -> None:
    """Leave the group: from here on every process is alone."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _keep(group: object) -> None:
    """Keep the group to the end of its process: it is left, but never taken apart.

    With torch 2.6 a group that is taken apart just after a collective may wait for ever: it holds the interpreter's
    lock, and gloo's thread needs that lock to let go of the last tensor. A list would be emptied when the interpreter
    ends.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def _take_accelerator(number: int) -> None:
    if number >= torch.cuda.device_count():
        raise LabError(f"--nproc-per-node must be at most the {torch.cuda.device_count()} CUDA devices of this machine")
    torch.cuda.set_device(number)


def is_first() -> bool:
    """Whether this process is the one that reads, writes and prints."""
    return own_rank() == 0


# ---------------------------------------------------------------- shared work


def own(parts: Sequence[T]) -> Sequence[T]:
    """This process's share of the parts."""
    return parts[own_rank() :: world_size()]


def summed(*numbers: float) -> list[float]:
    """The sums over all processes."""
    if world_size() == 1:
        return list(numbers)
    total = torch.tensor(numbers, dtype=torch.float64)
    dist.all_reduce(total)
    return total.tolist()


def by_example(indices: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """The scores of all examples 0, 1, 2, ..., of which each process has some."""
    everyones, found = Ranks.of_process_group().gathered(indices, scores)
    return found[everyones.argsort()]


def average_(tensors: Iterable[torch.Tensor]) -> None:
    """Replace each of these by its mean over the processes; whole numbers, which count steps, are equal already.

    Every process adds up what all of them have, in the order of their ranks. So the bits follow from the numbers alone.
    DistributedDataParallel sums in an order that depends on the steps since it was built: a resumed run would differ.
    """
    averaged = [tensor for tensor in tensors if tensor.is_floating_point()] if world_size() > 1 else []
    if not averaged:
        return
    own = torch.cat([tensor.flatten() for tensor in averaged])
    of_ranks = [torch.empty_like(own) for _ in range(world_size())]
    dist.all_gather(of_ranks, own)
    mean = reduce(torch.add, of_ranks) / world_size()
    for tensor, part in zip(averaged, mean.split([tensor.numel() for tensor in averaged]), strict=True):
        tensor.copy_(part.view_as(tensor))


def copy_from_first_(tensors: Iterable[torch.Tensor]) -> None:
    """Replace each of these by the first process's."""
    for tensor in tensors if world_size() > 1 else ():
        dist.broadcast(tensor, 0)


def first_then_others(read: Callable[[], T]) -> T:
    """What every process reads for itself, the first before the others: it may have to fetch it for them."""
    group = Ranks.of_process_group()
    with group.failing_together("reading the data"):
        found = [read()] if is_first() else []
    with group.failing_together("reading the data"):
        return found[0] if found else read()


def as_in_whole_batch(
    augment: Callable[[torch.Tensor], torch.Tensor], images: torch.Tensor, loss_scale: float
) -> torch.Tensor:
    """This process's slice, augmented as it would be inside the whole batch: random numbers are drawn for all of it.

    Args:
        augment: of a batch.
        images: the slice.
        loss_scale: of the sampler, which tells how large the whole batch is.
    """
    if world_size() == 1:
        return augment(images)
    num = round(len(images) * world_size() / loss_scale)
    mine = torch.arange(num, device=images.device).tensor_split(world_size())[own_rank()]
    whole = images.new_zeros(num, *images.shape[1:])
    whole[mine] = images
    return augment(whole)[mine]


# ---------------------------------------------------------------- what the first says


def tell(message: Mapping[str, Any] | None) -> None:
    """Say something to the others, who `listen`; None says that there is no more."""
    if world_size() > 1:
        _from_first(json.dumps(message).encode())


def listen() -> Any:  # noqa: ANN401 - what JSON holds
    """What the first process says."""
    return json.loads(_from_first(b""))


def state_of_first(read: Callable[[], Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """What the first process reads: a state of tensors and numbers, or None."""
    if world_size() == 1:
        return read()
    buffer = io.BytesIO()
    with Ranks.of_process_group().failing_together("reading the checkpoint"):
        if is_first():
            torch.save(read(), buffer)
    state: Mapping[str, Any] | None = torch.load(
        io.BytesIO(_from_first(buffer.getvalue())), map_location="cpu", weights_only=True
    )
    return state


def _from_first(content: bytes) -> bytes:
    """The first process's bytes, on all of them."""
    length = torch.tensor([len(content)])
    dist.broadcast(length, 0)
    sent = torch.frombuffer(bytearray(content if is_first() else int(length)), dtype=torch.uint8)
    dist.broadcast(sent, 0)
    return sent.numpy().tobytes()

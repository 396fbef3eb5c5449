"""The trainings of the resume matrix in plain torch, plain and with gradorder: one small network with dropout.

Every training saves a checkpoint after the step that it is told, and kills itself then. It continues from a checkpoint
if there is one. `torchrun resume_torch.py NAME FOLDER WORKERS STOP` runs one of them with elastic restarts, and Ray
Train runs `ray_worker`. This file imports no framework: every process that torchrun and Ray start imports it again.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader

import gradorder as go

SIZE, BATCH, EPOCHS = 24, 4, 3
SEED = 5
KEEP = 0.75
NewSampler = Callable[..., go.OrderedSampler]


def shuffled(dataset: Any, batch_size: int) -> go.OrderedSampler:  # noqa: ANN401 - any map-style dataset
    """Plain shuffling."""
    return go.OrderedSampler(dataset, batch_size, ordering=go.Shuffled(), epochs=EPOCHS, seed=SEED)


def by_loss(dataset: Any, batch_size: int) -> go.OrderedSampler:  # noqa: ANN401 - any map-style dataset
    """The examples of high loss, so that a resumed run needs the losses of the run before it."""
    ordering = go.PlackettLuce()
    return go.OrderedSampler(dataset, batch_size, ordering=ordering, keep=KEEP, start_epoch=1, epochs=EPOCHS, seed=SEED)


class Examples(Dataset[dict[str, torch.Tensor]]):
    """Inputs, labels, and the number of the example."""

    def __init__(self) -> None:
        self.x = torch.randn(SIZE, 4, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": self.x[index], "labels": torch.tensor(index % 3), "index": torch.tensor(index)}


class Network(nn.Module):
    """A small network with dropout, which gives losses as transformers expects them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))

    def forward(self, x: torch.Tensor, labels: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        """The mean loss, and the loss of each example."""
        del index
        losses = F.cross_entropy(self.layers(x), labels, reduction="none")
        return {"loss": losses.mean(), "losses": losses}


def new_network() -> Network:
    """The same on every rank; afterwards, every rank drops other units."""
    torch.manual_seed(SEED)
    return Network()


@dataclass
class Run:
    """One process of a training: where it saves, what it notes, and when it dies."""

    folder: Path
    num_workers: int = 0
    stop_after: int | None = None
    wrap: Callable[[Any], Any] = lambda loader: loader
    """What a framework puts around a loader."""

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return dist.get_rank() if dist.is_initialized() else 0

    @property
    def world_size(self) -> int:
        """The number of processes."""
        return dist.get_world_size() if dist.is_initialized() else 1

    @property
    def batch_size(self) -> int:
        """The examples of a batch of this process."""
        return BATCH // self.world_size

    @property
    def checkpoint(self) -> Path:
        """The checkpoint, a file or a folder."""
        return self.folder / "checkpoint"

    @property
    def workers(self) -> dict[str, Any]:
        """Settings of a loader."""
        return {"num_workers": self.num_workers}

    def note(self, batch: dict[str, torch.Tensor]) -> None:
        """Write down the examples of a batch, at once: the process may be killed."""
        with (self.folder / f"rank{self.rank}.jsonl").open("a", encoding="utf-8") as file:
            print(json.dumps(batch["index"].tolist()), file=file)

    def save(self, state: dict[str, Any]) -> None:
        """Save on rank 0; the random numbers of each rank in a file of its own."""
        torch.save(torch.get_rng_state(), self.folder / f"random{self.rank}")
        if self.rank == 0:
            torch.save(state, self.folder / "unfinished")
            (self.folder / "unfinished").replace(self.checkpoint)

    def load_random_state(self) -> None:
        """Restore the random numbers of this rank, if it had some."""
        path = self.folder / f"random{self.rank}"
        if path.exists():
            torch.set_rng_state(torch.load(path, weights_only=True))

    def die(self) -> None:
        """Kill this process, once every rank has saved everything."""
        if dist.is_initialized():
            dist.barrier()
        os.kill(os.getpid(), signal.SIGKILL)

    def finish(self, model: nn.Module) -> None:
        """Save the weights."""
        if self.rank == 0:
            weights = [parameter.detach().cpu() for parameter in model.parameters()]
            torch.save(weights, self.folder / "weights")


# -------------------------------------------------------------------- plain torch


def torch_plain(run: Run, *, kind: str) -> None:  # noqa: C901 - the loop as users write it
    """A loop that saves the epoch and the batch, and skips batches after a resume."""
    data, network = Examples(), new_network()
    sampler: DistributedSampler[Any] | None = DistributedSampler(data, seed=SEED) if dist.is_initialized() else None
    if kind == "DistributedSampler" and sampler is None:
        sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=SEED)
    loader_class = StatefulDataLoader if kind == "StatefulDataLoader" else DataLoader
    loader: Any = loader_class(data, run.batch_size, sampler=sampler, shuffle=sampler is None, **run.workers)
    model = DistributedDataParallel(network) if dist.is_initialized() else network
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    torch.manual_seed(SEED + run.rank)
    epoch = done = step = 0
    is_resumed = run.checkpoint.exists()
    if is_resumed:
        saved = torch.load(run.checkpoint, weights_only=False)
        network.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        epoch, done, step = saved["place"]
        if kind == "StatefulDataLoader":
            loader.load_state_dict(saved["loader"])
        if done == SIZE // BATCH and kind != "StatefulDataLoader":  # which ends the old epoch by itself
            epoch, done = epoch + 1, 0
            run.load_random_state()
            is_resumed = False
    for current in range(epoch, EPOCHS):
        if sampler is not None:
            sampler.set_epoch(current)
        skips = done if is_resumed and kind != "StatefulDataLoader" else 0
        place = done if is_resumed else 0
        for number, batch in enumerate(run.wrap(loader)):
            if number < skips:
                continue
            if is_resumed:
                run.load_random_state()
                is_resumed = False
            _update(run, model, optimizer, batch)
            step, place = step + 1, place + 1
            if step == run.stop_after:
                state: dict[str, Any] = {"model": network.state_dict(), "optimizer": optimizer.state_dict()}
                state["place"] = (current, place, step)
                run.save(state | ({"loader": loader.state_dict()} if kind == "StatefulDataLoader" else {}))
                run.die()
    run.finish(network)


def _update(run: Run, model: nn.Module, optimizer: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:  # noqa: ANN401
    run.note(batch)
    outputs = model(**batch)
    optimizer.zero_grad()
    outputs["loss"].backward()
    optimizer.step()
    losses: torch.Tensor = outputs["losses"].detach()
    return losses


def torch_ordered(run: Run, *, new_sampler: NewSampler) -> None:
    """The same loop with gradorder: nothing is skipped by hand."""
    data, network = Examples(), new_network()
    model = DistributedDataParallel(network) if dist.is_initialized() else network
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = new_sampler(data, BATCH)
    loader = run.wrap(sampler.loader(data, **run.workers))
    torch.manual_seed(SEED + run.rank)
    step = 0
    if run.checkpoint.exists():
        saved = torch.load(run.checkpoint, weights_only=True)
        network.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        sampler.load_state_dict(saved["sampler"])
        step = saved["step"]
        run.load_random_state()
    for epoch in epochs_left(sampler):
        sampler.set_epoch(epoch)
        for batch in loader:
            sampler.step(_update(run, model, optimizer, batch))
            step += 1
            if step == run.stop_after:
                state = {"model": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                run.save(state | {"sampler": sampler.state_dict()})
                run.die()
    run.finish(network)


def epochs_left(sampler: go.OrderedSampler) -> Iterator[int]:
    """The epochs to train, from the one that the sampler is in."""
    yield from range(sampler.epoch + (sampler.steps_left == 0), EPOCHS)


TORCH_TRAININGS: dict[tuple[str, str], Callable[[Run], None]] = {
    ("torch", "DataLoader(shuffle=True), batches skipped"): partial(torch_plain, kind="DataLoader"),
    ("torch", "DistributedSampler, batches skipped"): partial(torch_plain, kind="DistributedSampler"),
    ("torch", "StatefulDataLoader"): partial(torch_plain, kind="StatefulDataLoader"),
    ("torch", "gradorder, Shuffled()"): partial(torch_ordered, new_sampler=shuffled),
    ("torch", "gradorder, PlackettLuce(), keep=0.75"): partial(torch_ordered, new_sampler=by_loss),
}
"""By framework and the way that the data is loaded."""


def ray_worker(config: dict[str, Any]) -> None:
    """One process of Ray Train, which starts it again after its death; its loader prefetches a batch."""
    from ray.train.torch import prepare_data_loader  # noqa: PLC0415 - only if it is installed

    torch.set_num_threads(1)
    run = Run(Path(config["folder"]), wrap=partial(prepare_data_loader, add_dist_sampler=False))
    if config["stop"] and not run.checkpoint.exists():
        run.stop_after = config["stop"]
    TORCH_TRAININGS["torch", config["setting"]](run)


def main() -> None:
    """One training under torchrun, which starts it again after its death."""
    setting, folder, workers, stop = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    stop_after = int(stop) if is_first and int(stop) > 0 else None
    TORCH_TRAININGS["torch", setting](Run(Path(folder), int(workers), stop_after))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

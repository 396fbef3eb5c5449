"""The trainings of the resume matrix: one small network with dropout, in every framework, plain and with gradorder.

Every training saves a checkpoint after the step that it is told, and kills itself then. It continues from a checkpoint
if there is one. `torchrun resume_trainings.py NAME FOLDER WORKERS STOP` runs one of them with elastic restarts.
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
from accelerate import Accelerator  # type: ignore[import-untyped]
from accelerate.utils import DataLoaderConfiguration  # type: ignore[import-untyped]
from lightning.fabric import Fabric
from lightning.pytorch import Callback, LightningModule
from lightning.pytorch import Trainer as LightningTrainer
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

import gradorder as go
from gradorder.integrations import accelerate as for_accelerate
from gradorder.integrations import lightning as for_lightning
from gradorder.integrations import transformers as for_transformers
from gradorder.integrations.random_state import RandomState

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
    for epoch in _epochs(sampler):
        sampler.set_epoch(epoch)
        for batch in loader:
            sampler.step(_update(run, model, optimizer, batch))
            step += 1
            if step == run.stop_after:
                state = {"model": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                run.save(state | {"sampler": sampler.state_dict()})
                run.die()
    run.finish(network)


def _epochs(sampler: go.OrderedSampler) -> Iterator[int]:
    yield from range(sampler.epoch + (sampler.steps_left == 0), EPOCHS)


# -------------------------------------------------------------------- Accelerate


def accelerate_plain(run: Run, *, kind: str) -> None:
    """`prepare`, `save_state`, `load_state` and `skip_first_batches`, as Accelerate documents them."""
    is_stateful = kind == "use_stateful_dataloader"
    config = DataLoaderConfiguration(
        use_seedable_sampler=kind == "use_seedable_sampler", use_stateful_dataloader=is_stateful
    )
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    network = new_network()
    loader = DataLoader(Examples(), run.batch_size, shuffle=True, **run.workers)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    place = _Place()
    model, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    accelerator.register_for_checkpointing(place)
    # Every rank has the same seed, as Accelerate asks for.
    torch.manual_seed(SEED)
    is_resumed = run.checkpoint.exists()
    if is_resumed:
        accelerator.load_state(str(run.checkpoint))
        if place.done == SIZE // BATCH:
            place.epoch, place.done, is_resumed = place.epoch + 1, 0, False
    for epoch in range(place.epoch, EPOCHS):
        loader.set_epoch(epoch)
        skips = is_resumed and not is_stateful
        batches = accelerator.skip_first_batches(loader, place.done) if skips else loader
        if skips:
            batches.set_epoch(epoch)
        place.epoch, place.done = epoch, place.done if is_resumed else 0
        is_resumed = False
        for batch in batches:
            run.note(batch)
            outputs = model(**batch)
            optimizer.zero_grad()
            accelerator.backward(outputs["loss"])
            optimizer.step()
            place.done, place.step = place.done + 1, place.step + 1
            if place.step == run.stop_after:
                accelerator.save_state(str(run.checkpoint))
                run.die()
    run.finish(network)


class _Place:
    """Epoch, batches done of it, and steps, for `register_for_checkpointing`."""

    def __init__(self) -> None:
        self.epoch = self.done = self.step = 0

    def state_dict(self) -> dict[str, int]:
        """Three numbers."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore them."""
        vars(self).update(state)


def accelerate_ordered(run: Run, *, new_sampler: NewSampler) -> None:
    """`ordered_loader`, and the sampler registered for checkpointing."""
    accelerator = Accelerator(cpu=True)
    data, network = Examples(), new_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    sampler, place = new_sampler(data, BATCH), _Place()
    ordered = for_accelerate.ordered_loader(accelerator, data, sampler, **run.workers)
    model, optimizer, loader = accelerator.prepare(network, optimizer, ordered)
    accelerator.register_for_checkpointing(sampler, place)
    torch.manual_seed(SEED + run.rank)
    if run.checkpoint.exists():
        accelerator.load_state(str(run.checkpoint))
    for epoch in _epochs(sampler):
        sampler.set_epoch(epoch)
        for batch in loader:
            run.note(batch)
            outputs = model(**batch)
            optimizer.zero_grad()
            accelerator.backward(outputs["loss"] * sampler.loss_scale)
            optimizer.step()
            sampler.step(outputs["losses"].detach())
            place.step += 1
            if place.step == run.stop_after:
                accelerator.save_state(str(run.checkpoint))
                run.die()
    run.finish(network)


# -------------------------------------------------------------------- Lightning


class _Module(LightningModule):
    def __init__(self, run: Run, new_loader: Callable[[], DataLoader[Any]]) -> None:
        super().__init__()
        self.network, self.run, self.new_loader = new_network(), run, new_loader

    def train_dataloader(self) -> DataLoader[Any]:
        return self.new_loader()

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> dict[str, torch.Tensor]:
        self.run.note(batch)
        outputs = self.network(**batch)
        return {"loss": outputs["loss"], "scores": outputs["losses"].detach()}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)

    def on_train_start(self) -> None:
        if not self.run.checkpoint.exists():
            torch.manual_seed(SEED + self.run.rank)


class _SaveAndDie(Callback):
    def on_train_batch_end(self, trainer: LightningTrainer, pl_module: LightningModule, *_: Any) -> None:  # noqa: ANN401
        run: Any = pl_module.run
        if trainer.global_step == run.stop_after:
            trainer.save_checkpoint(run.checkpoint)
            run.die()


def _fit(run: Run, module: _Module, *callbacks: Callback) -> None:
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = LightningTrainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=run.world_size,
        strategy="ddp" if run.world_size > 1 else "auto",
        enable_checkpointing=False,
        callbacks=[*callbacks, _SaveAndDie()],
        **quiet,
    )
    trainer.fit(module, ckpt_path=run.checkpoint if run.checkpoint.exists() else None)
    run.finish(module.network)


def lightning_plain(run: Run, *, kind: str) -> None:
    """`Trainer.fit(ckpt_path=...)`."""
    loader_class = StatefulDataLoader if kind == "StatefulDataLoader" else DataLoader
    _fit(run, _Module(run, lambda: loader_class(Examples(), batch_size=run.batch_size, shuffle=True, **run.workers)))


def lightning_ordered(run: Run, *, new_sampler: NewSampler) -> None:
    """The same with the callback."""
    data = Examples()
    module = _Module(run, lambda: new_sampler(data, BATCH).loader(data, **run.workers))
    _fit(run, module, for_lightning.OrderedTraining())


# -------------------------------------------------------------------- Fabric


def fabric_training(run: Run, *, new_sampler: NewSampler | None) -> None:
    """`fabric.save` and `fabric.load`; without a sampler, a loop that skips batches after a resume."""
    strategy = "ddp" if run.world_size > 1 else "auto"
    fabric = Fabric(accelerator="cpu", devices=run.world_size, strategy=strategy)
    fabric.launch()
    data, network, place = Examples(), new_network(), _Place()
    model, optimizer = fabric.setup(network, torch.optim.Adam(network.parameters(), lr=0.01))
    sampler = None if new_sampler is None else new_sampler(data, BATCH)
    own = DataLoader(data, run.batch_size, shuffle=True, **run.workers)
    loader = fabric.setup_dataloaders(
        own if sampler is None else for_lightning.ordered_loader(data, sampler, **run.workers)
    )
    torch.manual_seed(SEED + run.rank)
    state: dict[str, Any] = {"model": model, "optimizer": optimizer, "place": place, "random": RandomState()}
    if sampler is not None:
        state["sampler"] = sampler
    if run.checkpoint.exists():
        fabric.load(run.checkpoint, state)
    first = place.done % (SIZE // BATCH) if sampler is None else 0
    epochs = range(place.epoch + (place.done == SIZE // BATCH), EPOCHS) if sampler is None else _epochs(sampler)
    for epoch in epochs:
        if sampler is not None:
            sampler.set_epoch(epoch)
        for number, batch in enumerate(loader):
            if number < first:
                continue
            run.note(batch)
            outputs = model(**batch)
            optimizer.zero_grad()
            fabric.backward(outputs["loss"])
            optimizer.step()
            if sampler is not None:
                sampler.step(outputs["losses"].detach())
            place.epoch, place.done, place.step = epoch, number + 1, place.step + 1
            if place.step == run.stop_after:
                fabric.save(run.checkpoint, state)
                run.die()
        first = 0
    run.finish(network)


# -------------------------------------------------------------------- transformers


class _Die(TrainerCallback):
    def __init__(self, run: Run) -> None:
        self.run = run

    def on_save(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        del args, control
        (self.run.folder / "last").write_text(str(state.global_step))
        self.run.die()


def transformers_training(run: Run, *, new_sampler: NewSampler | None) -> None:
    """`Trainer.train(resume_from_checkpoint=...)`."""
    bases: tuple[Any, ...] = (Trainer,) if new_sampler is None else (for_transformers.OrderedTrainer,)

    class Noting(*bases):  # type: ignore[misc] # one of two
        def training_step(self, model: nn.Module, inputs: dict[str, Any], *others: Any) -> torch.Tensor:  # noqa: ANN401
            run.note(inputs)
            loss: torch.Tensor = super().training_step(model, inputs, *others)
            return loss

    arguments = TrainingArguments(
        str(run.folder),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=run.batch_size,
        learning_rate=0.01,
        lr_scheduler_type="constant",
        save_strategy="no" if run.stop_after is None else "steps",
        save_steps=run.stop_after or 1,
        remove_unused_columns=False,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=SEED,
        dataloader_num_workers=run.num_workers,
    )
    order = {} if new_sampler is None else {"order": new_sampler, "record": lambda _, outputs: outputs["losses"]}
    network = new_network()
    trainer = Noting(network, arguments, train_dataset=Examples(), callbacks=[_Die(run)], **order)
    last = run.folder / "last"
    checkpoint = str(run.folder / f"checkpoint-{last.read_text()}") if last.exists() else None
    trainer.train(resume_from_checkpoint=checkpoint)
    run.finish(network)


TRAININGS: dict[tuple[str, str], Callable[[Run], None]] = {
    ("torch", "DataLoader(shuffle=True), batches skipped"): partial(torch_plain, kind="DataLoader"),
    ("torch", "DistributedSampler, batches skipped"): partial(torch_plain, kind="DistributedSampler"),
    ("torch", "StatefulDataLoader"): partial(torch_plain, kind="StatefulDataLoader"),
    ("torch", "gradorder, Shuffled()"): partial(torch_ordered, new_sampler=shuffled),
    ("torch", "gradorder, PlackettLuce(), keep=0.75"): partial(torch_ordered, new_sampler=by_loss),
    ("accelerate", "shuffle=True, skip_first_batches"): partial(accelerate_plain, kind="shuffle"),
    ("accelerate", "use_seedable_sampler, skip_first_batches"): partial(accelerate_plain, kind="use_seedable_sampler"),
    ("accelerate", "use_stateful_dataloader"): partial(accelerate_plain, kind="use_stateful_dataloader"),
    ("accelerate", "gradorder, Shuffled()"): partial(accelerate_ordered, new_sampler=shuffled),
    ("accelerate", "gradorder, PlackettLuce(), keep=0.75"): partial(accelerate_ordered, new_sampler=by_loss),
    ("lightning", "shuffle=True"): partial(lightning_plain, kind="DataLoader"),
    ("lightning", "StatefulDataLoader"): partial(lightning_plain, kind="StatefulDataLoader"),
    ("lightning", "gradorder, Shuffled()"): partial(lightning_ordered, new_sampler=shuffled),
    ("lightning", "gradorder, PlackettLuce(), keep=0.75"): partial(lightning_ordered, new_sampler=by_loss),
    ("fabric", "shuffle=True, batches skipped"): partial(fabric_training, new_sampler=None),
    ("fabric", "gradorder, Shuffled()"): partial(fabric_training, new_sampler=shuffled),
    ("fabric", "gradorder, PlackettLuce(), keep=0.75"): partial(fabric_training, new_sampler=by_loss),
    ("transformers", "Trainer"): partial(transformers_training, new_sampler=None),
    ("transformers", "gradorder, Shuffled()"): partial(transformers_training, new_sampler=shuffled),
    ("transformers", "gradorder, PlackettLuce(), keep=0.75"): partial(transformers_training, new_sampler=by_loss),
}
"""By framework and the way that the data is loaded."""


def ray_worker(config: dict[str, Any]) -> None:
    """One process of Ray Train, which starts it again after its death; its loader prefetches a batch."""
    from ray.train.torch import prepare_data_loader  # noqa: PLC0415 - only if it is installed

    torch.set_num_threads(1)
    run = Run(Path(config["folder"]), wrap=partial(prepare_data_loader, add_dist_sampler=False))
    if config["stop"] and not run.checkpoint.exists():
        run.stop_after = config["stop"]
    TRAININGS["torch", config["setting"]](run)


def main() -> None:
    """One training under torchrun, which starts it again after its death."""
    setting, folder, workers, stop = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    stop_after = int(stop) if is_first and int(stop) > 0 else None
    TRAININGS["torch", setting](Run(Path(folder), int(workers), stop_after))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""The trainings of the resume matrix in every framework, plain and with gradorder.

They train the network of `resume_torch.py` on the same examples, save a checkpoint after the step that they are told,
kill themselves then, and continue from a checkpoint if there is one.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from accelerate.utils import DataLoaderConfiguration  # type: ignore[import-untyped]
from lightning.fabric import Fabric
from lightning.pytorch import Callback, LightningModule
from lightning.pytorch import Trainer as LightningTrainer
from resume_torch import (
    BATCH,
    EPOCHS,
    SEED,
    SIZE,
    TORCH_TRAININGS,
    Examples,
    NewSampler,
    Run,
    by_loss,
    epochs_left,
    new_network,
    shuffled,
)
from torch import nn
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

from gradorder.integrations import accelerate as for_accelerate
from gradorder.integrations import lightning as for_lightning
from gradorder.integrations import transformers as for_transformers
from gradorder.integrations.random_state import RandomState

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
    for epoch in epochs_left(sampler):
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
    epochs = range(place.epoch + (place.done == SIZE // BATCH), EPOCHS) if sampler is None else epochs_left(sampler)
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
    **TORCH_TRAININGS,
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

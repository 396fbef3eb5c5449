"""Lightning: a callback for `Trainer`, a loader for `Fabric`.

`Trainer` leaves a DistributedSampler alone, which an `OrderedSampler` is, but it reads the length of an epoch once and
makes the first epoch's iterator before any hook. The callback plans each epoch, tells the trainer its length, and puts
the sampler's place into the trainer's checkpoints.
"""

import math
import warnings
from typing import Any, cast

import torch
from torch.utils.data import DataLoader

from gradorder.integrations.planned import PlannedSampler
from gradorder.integrations.versions import check_version
from gradorder.progress_lr import ProgressLR
from gradorder.sampler import OrderedSampler
from gradorder.scores import Score, score_dataset

check_version("lightning", "2.5")
try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    raise ImportError('gradorder.integrations.lightning needs Lightning: pip install "gradorder[lightning]"') from error


def ordered_loader(dataset: Any, sampler: OrderedSampler, **settings: Any) -> DataLoader[Any]:  # noqa: ANN401
    """A loader for `fabric.setup_dataloaders`, which would otherwise count the epochs for the sampler.

    Args:
        dataset: what the sampler orders.
        sampler: built after `fabric.launch()`, planned by the training loop with `sampler.set_epoch`.
        settings: for `DataLoader`, all but batch size and order.
    """
    return DataLoader(dataset, sampler.loader_batch_size, sampler=PlannedSampler(sampler), **settings)


class OrderedTraining(Callback):
    """Plans every epoch of a `Trainer` whose training loader has an `OrderedSampler`.

    Build sampler and loader in `train_dataloader`, where the processes know each other::

        def train_dataloader(self):
            sampler = go.OrderedSampler(self.data, batch_size=64, keep=0.5)
            return DataLoader(self.data, sampler.loader_batch_size, sampler=sampler)


        trainer = Trainer(callbacks=[OrderedTraining(go.GradientNorm())])

    Args:
        score: what the examples are scored by before each epoch that needs it; the model is the LightningModule. If
            not given, the epochs are ordered by what `training_step` returns as `scores` beside `loss`.
        scoring: further arguments of `score_dataset`; `collate_fn` is the training loader's if not given.

    The trainer's checkpoints hold the sampler's place, also within an epoch. `trainer.estimated_stepping_batches`
    counts the steps of all epochs as they will be. Where an ordering such as `go.recommended`'s decides epoch by epoch
    what to leave out, nobody knows them, and step sizes follow the run's progress::

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            scheduler = go.ProgressLR(optimizer, sampler_of(self.trainer))
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    Raises:
        RuntimeError: at the start, if the training loader has another sampler.
        ValueError: if an epoch is shorter than a `val_check_interval` in batches, so that it would never validate.
    """

    def __init__(self, score: Score | None = None, **scoring: Any) -> None:  # noqa: ANN401 - for score_dataset
        self.score = score
        self.scoring = scoring
        self._sampler: OrderedSampler | None = None
        self._loaded: dict[str, Any] | None = None
        self._is_first = True

    # ---------------------------------------------------------------- hooks

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Make the trainer count steps epoch by epoch."""
        del pl_module
        if stage == "fit" and not isinstance(trainer, _Counting):
            trainer.__class__ = type("OrderedTrainer", (_Counting, type(trainer)), {})

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Find the sampler, and go on where a checkpoint left off."""
        self._sampler = sampler_of(trainer)
        _check_epochs(trainer, self._sampler)
        self._is_first = True
        if self._loaded is None:
            return
        self._sampler.load_state_dict(self._loaded)
        self._loaded = None
        num_loaded = len(_loader_of(trainer))
        if trainer.current_epoch > self._sampler.epoch and trainer.fit_loop.restarted_mid_epoch:
            # Saved after an epoch's last batch: Trainer begins the next one without its hook, and tells that it is a
            # new one by the length of the old one.
            self._plan(trainer, pl_module)
        self._tell_length(trainer)
        trainer.fit_loop.max_batches = min(trainer.fit_loop.max_batches, num_loaded)
        _iterate_again(trainer)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Plan the epoch."""
        self._plan(trainer, pl_module)
        self._tell_length(trainer)
        if self._is_first:
            _iterate_again(trainer)
        self._is_first = False

    def on_train_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        batch: Any,  # noqa: ANN401 - whatever the loader gives
        batch_idx: int,
    ) -> None:
        """The new length, where the old one had to stand at the start."""
        del pl_module, batch
        if batch_idx == 0:
            self._tell_length(trainer)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,  # noqa: ANN401 - whatever training_step returns
        batch: Any,  # noqa: ANN401
        batch_idx: int,
    ) -> None:
        """Count the batch, and remember its scores."""
        del pl_module, batch, batch_idx
        scores = outputs.get("scores") if isinstance(outputs, dict) and self.score is None else None
        sampler_of(trainer).step(scores)
        for config in trainer.lr_scheduler_configs:  # Trainer stepped them before the batch was counted
            if isinstance(config.scheduler, ProgressLR):
                config.scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """The sampler's place, for the trainer's checkpoint."""
        return {} if self._sampler is None else self._sampler.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep it until there is a sampler."""
        self._loaded = state_dict or None

    def plan_first_epoch(self, sampler: OrderedSampler) -> None:
        """Before training: without a score the first epoch is complete, and must be counted so."""
        if self._sampler is None and self.score is None:
            sampler.set_epoch(0)

    def _plan(self, trainer: Trainer, pl_module: LightningModule) -> None:
        loader = _loader_of(trainer)

        def scores() -> torch.Tensor:
            settings = {"collate_fn": loader.collate_fn, **self.scoring}
            return score_dataset(pl_module, loader.dataset, cast("Score", self.score), **settings)

        sampler_of(trainer).set_epoch(trainer.current_epoch, scores=None if self.score is None else scores)

    # ---------------------------------------------------------------- lengths

    @staticmethod
    def _tell_length(trainer: Trainer) -> None:
        """What `Trainer` reads once, at the beginning."""
        num_batches = _limited(trainer, len(_loader_of(trainer)))
        trainer.fit_loop._combined_loader.limits = [num_batches]  # type: ignore[union-attr] # noqa: SLF001 - no public way
        trainer.fit_loop.max_batches = num_batches
        interval = trainer.val_check_interval
        if isinstance(interval, float):
            trainer.val_check_batch = max(1, int(num_batches * interval))
        elif interval > num_batches and trainer.check_val_every_n_epoch is not None and trainer.enable_validation:
            raise ValueError(
                f"val_check_interval must be at most the {num_batches} batches of epoch {trainer.current_epoch}, got "
                f"{interval}: the epoch would never validate. Use a fraction, or check_val_every_n_epoch=None"
            )


class _Counting(Trainer):
    """A trainer whose epochs differ in length."""

    @property
    def estimated_stepping_batches(self) -> int | float:
        """The optimizer steps of the whole run."""
        estimate = super().estimated_stepping_batches
        if self.max_epochs is None or self.max_epochs < 0 or self.train_dataloader is None:
            return estimate
        sampler = sampler_of(self)
        for callback in self.callbacks:  # type: ignore[attr-defined] # Trainer has them
            if isinstance(callback, OrderedTraining):
                callback.plan_first_epoch(sampler)
        lengths = [_limited(self, sampler.num_steps(epoch, epoch + 1)) for epoch in range(self.max_epochs)]
        total = sum(math.ceil(length / self.accumulate_grad_batches) for length in lengths)
        return total if self.max_steps < 0 else min(total, self.max_steps)


def sampler_of(trainer: Trainer) -> OrderedSampler:
    """The sampler of the training loader; in `configure_optimizers`, too, for `go.ProgressLR(optimizer, sampler)`.

    Raises:
        RuntimeError: it is not an `OrderedSampler`.
    """
    sampler = _loader_of(trainer).sampler
    if not isinstance(sampler, OrderedSampler):
        raise RuntimeError(  # noqa: TRY004 - the type is right at the user's, and what is here was put there later
            f"the training loader must have an OrderedSampler, but Trainer uses it with a {type(sampler).__name__}: "
            "give it to the DataLoader as sampler= (not inside a batch_sampler), and do not use overfit_batches"
        )
    return sampler


def _check_epochs(trainer: Trainer, sampler: OrderedSampler) -> None:
    """Warn where the run is not as long as the sampler was told: a step size that follows its progress would suffer."""
    epochs, trained = sampler.epochs, trainer.max_epochs
    if trained is None or trained < 0 or trainer.max_steps >= 0:  # it is not epochs that end the run
        return
    if epochs is None or epochs == trained:
        return
    so = (
        "stays at its end, most often 0" if epochs < trained else "does not come to its end, unless another fit goes on"
    )
    warnings.warn(
        f"the sampler was built with epochs={epochs}, and the trainer has max_epochs={trained}: a step size that "
        f"follows the run's progress, as with go.ProgressLR, {so}",
        stacklevel=2,
    )


def _loader_of(trainer: Trainer) -> DataLoader[Any]:
    if trainer.train_dataloader is None:
        trainer.fit_loop.setup_data()  # as `estimated_stepping_batches` does; once
    loader = trainer.train_dataloader
    if not isinstance(loader, DataLoader):
        raise RuntimeError(f"train_dataloader must give one DataLoader, got {type(loader).__name__}")  # noqa: TRY004
    return loader


def _limited(trainer: Trainer, num_batches: int) -> int:
    limit = trainer.limit_train_batches
    return min(num_batches, limit) if isinstance(limit, int) else int(num_batches * limit)


def _iterate_again(trainer: Trainer) -> None:
    """The first iterator of a run is made before any hook: with workers it would hold another plan's batches."""
    iter(trainer.fit_loop._data_fetcher)  # type: ignore[arg-type] # noqa: SLF001 - no public way

"""Lightning: a callback and a trainer for `Trainer`, a loader for `Fabric`.

`Trainer` keeps a DistributedSampler, which an `OrderedSampler` is. But it reads the length of an epoch once, makes the
iterator of the first epoch before any hook, and does not save random numbers. The callback plans each epoch, tells the
trainer how long it is, and adds the sampler and the random numbers to the trainer's checkpoints.
"""

import math
import warnings
from collections.abc import Iterator
from typing import Any, cast, final

import torch
from torch.utils.data import DataLoader

from gradorder.errors import UnknownStepsError
from gradorder.integrations.framework import PlannedSampler, check_same_dataset, check_version, epoch_metrics
from gradorder.integrations.random_state import RandomState
from gradorder.progress_lr import ProgressLR
from gradorder.sampler import OrderedSampler
from gradorder.scores import Score, score_dataset

check_version("lightning", "2.5")
try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    raise ImportError('gradorder.integrations.lightning needs Lightning: pip install "gradorder[lightning]"') from error


# -------------------------------------------------------------------- Fabric


@final
class OrderedLoader(DataLoader[Any]):
    """The loader that `ordered_loader` returns."""

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override] # torch names a class of its own
        # Not from the global generator: a resumed run iterates once more, so that dropout would differ.
        cast("PlannedSampler", self.sampler).ordered.seed_loader(cast("torch.Generator", self.generator))
        return super().__iter__()


def ordered_loader(dataset: Any, sampler: OrderedSampler, **settings: Any) -> OrderedLoader:  # noqa: ANN401
    """Return a loader for `fabric.setup_dataloaders`, which would otherwise call `set_epoch` with its own count.

    Args:
        dataset: the dataset that the sampler orders.
        sampler: built after `fabric.launch()`. The training loop calls `sampler.set_epoch`.
        settings: settings of `DataLoader`, except batch size, order and generator.
    """
    check_same_dataset(sampler, "Load all of it on every process, not a part per rank: the sampler splits it")
    planned, size = PlannedSampler(sampler), sampler.loader_batch_size
    return OrderedLoader(dataset, size, sampler=planned, generator=torch.Generator(), **settings)


# -------------------------------------------------------------------- Trainer


class OrderedTraining(Callback):
    """Plans every epoch of a `Trainer` whose training loader has an `OrderedSampler`.

    Build sampler and loader in `train_dataloader`, where the number of processes is known::

        class Classifier(LightningModule):
            def train_dataloader(self):
                self.sampler = go.OrderedSampler(self.data, batch_size=64, ordering=go.Descending(), start_epoch=1)
                return self.sampler.loader(self.data)


        trainer = Trainer(callbacks=[OrderedTraining(go.GradientNorm())])

    Args:
        score: computes the scores of all examples before each epoch that needs them; its model is the LightningModule.
            Without it, the epochs are ordered by the `scores` that `training_step` returns beside `loss`.
        scoring: further arguments of `score_dataset`; `collate_fn` is that of the training loader by default.

    The trainer's checkpoints contain the sampler's position, also within an epoch, and the random numbers of every
    process. A resumed run is the same run, also with dropout. Use `OrderedTrainer` if a learning-rate scheduler is
    built from `trainer.estimated_stepping_batches`. Orderings such as that of `go.recommended` decide epoch by epoch
    how many steps there are, so the learning rate follows the progress of the run::

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            scheduler = go.ProgressLR(optimizer, sampler_of(self.trainer))
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    With `Trainer(max_epochs=-1)` and a sampler built with `epochs`, the run ends when `sampler.progress` is 1, as with
    `sampler.run()`. The callback logs `gradorder/kept` and `gradorder/skipped`, the fractions of the examples that an
    epoch visits and skips.

    Raises:
        RuntimeError: the training loader has another sampler, or a reloaded one has a new sampler.
        ValueError: `training_step` returns no `scores` although the ordering needs them; an epoch is shorter than a
            `val_check_interval` in batches; or a plain `Trainer` would count other steps than there will be.
    """

    def __init__(self, score: Score | None = None, **scoring: Any) -> None:  # noqa: ANN401 - for score_dataset
        self.score = score
        self.scoring = scoring
        self._sampler: OrderedSampler | None = None
        self._loaded: dict[str, Any] | None = None
        self._is_first = True
        self._generator = torch.Generator()

    # ---------------------------------------------------------------- hooks

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Find the sampler, and continue from the checkpoint if there is one."""
        self._sampler = sampler_of(trainer)
        check_same_dataset(self._sampler, "Load all of it in setup() on every process: the sampler splits it")
        _check_epochs(trainer, self._sampler)
        if _ends_by_sampler(trainer, self._sampler):
            _check_is_not_limited(trainer)
            self._sampler.start_run()
        self.plan_first_epoch(self._sampler)
        _check_schedulers(trainer)
        self._is_first = True
        if self._loaded is None:
            _check_end(trainer, self._sampler)
            return
        loaded, self._loaded = self._loaded, None
        self._sampler.load_state_dict(loaded["sampler"])
        _check_end(trainer, self._sampler)
        num_loaded = len(_loader_of(trainer))
        is_over = _ends_by_sampler(trainer, self._sampler) and self._sampler.is_over
        if is_over:
            trainer.should_stop = True
        elif trainer.current_epoch > self._sampler.epoch and trainer.fit_loop.restarted_mid_epoch:
            # Saved after the last batch of an epoch: Trainer begins the next epoch without its hook, and recognises it
            # by the length of the last one.
            self._plan(trainer, pl_module)
        self._tell_length(trainer)
        trainer.fit_loop.max_batches = min(trainer.fit_loop.max_batches, num_loaded)
        self._seed_loader(trainer)
        _iterate_again(trainer)
        RandomState().load_state_dict(loaded["random"])

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Plan the epoch."""
        self._check_reloaded(trainer)
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
        """Tell the new length if `on_train_start` had to leave the old one."""
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
        del batch, batch_idx
        sampler_of(trainer).step(None if self.score is not None else self._scores(trainer, pl_module, outputs or {}))
        for config in trainer.lr_scheduler_configs:  # Trainer stepped them before the batch was counted
            if isinstance(config.scheduler, ProgressLR):
                config.scheduler.step()
        if _ends_by_sampler(trainer, sampler_of(trainer)) and sampler_of(trainer).is_over:
            trainer.should_stop = True  # after the epoch: Lightning still validates and saves

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the fractions of the examples that the epoch visited and skipped."""
        pl_module.log_dict(epoch_metrics(sampler_of(trainer)), sync_dist=True)

    def state_dict(self) -> dict[str, Any]:
        """The position of the sampler and the random numbers, for the trainer's checkpoint."""
        if self._sampler is None:
            return {}
        return {"sampler": self._sampler.state_dict(), "random": RandomState().state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state until there is a sampler."""
        self._loaded = state_dict or None

    # ---------------------------------------------------------------- planning

    def plan_first_epoch(self, sampler: OrderedSampler) -> None:
        """Without a score, the first epoch is complete; plan it before its steps are counted."""
        if self.score is None and sampler.epoch == 0:
            sampler.set_epoch(0)

    def _plan(self, trainer: Trainer, pl_module: LightningModule) -> None:
        loader = _loader_of(trainer)

        def scores() -> torch.Tensor:
            settings = {"collate_fn": loader.collate_fn, **self.scoring}
            return score_dataset(pl_module, loader.dataset, cast("Score", self.score), **settings)

        sampler = sampler_of(trainer)
        sampler.set_epoch(trainer.current_epoch, scores=None if self.score is None else scores)
        self._seed_loader(trainer)

    def _seed_loader(self, trainer: Trainer) -> None:
        """Give the user's loader a generator for the seeds of its workers, unless it has one."""
        loader = _loader_of(trainer)
        loader.generator = loader.generator or self._generator
        if loader.generator is self._generator:
            sampler_of(trainer).seed_loader(self._generator)

    def _check_reloaded(self, trainer: Trainer) -> None:
        if sampler_of(trainer) is not self._sampler:
            raise RuntimeError(
                "the sampler must stay the same for the whole run, but train_dataloader was called again and made a "
                "new one, which remembers no scores: set reload_dataloaders_every_n_epochs=0, or build the sampler "
                "once in setup() and return sampler.loader(...) from train_dataloader"
            )

    def _scores(self, trainer: Trainer, pl_module: LightningModule, outputs: dict[str, Any]) -> torch.Tensor | None:
        is_skipped = pl_module.automatic_optimization and outputs.get("loss") is None
        scores: torch.Tensor | None = outputs.get("scores")
        if scores is None and not is_skipped and sampler_of(trainer).needs_scores:
            raise ValueError(
                "training_step must return scores, one loss per example, because the ordering needs them, and returned "
                f'{", ".join(outputs) or "nothing"}. Return {{"loss": losses.mean(), "scores": losses.detach()}}, also '
                "with manual optimization, or pass a score: OrderedTraining(go.GradientNorm())"
            )
        return scores

    # ---------------------------------------------------------------- lengths

    @staticmethod
    def _tell_length(trainer: Trainer) -> None:
        """Update what `Trainer` reads once, at the beginning."""
        num_batches = _limited(trainer, len(_loader_of(trainer)))
        _set_length(trainer, num_batches)
        interval = trainer.val_check_interval
        if isinstance(interval, float):
            trainer.val_check_batch = max(1, int(num_batches * interval))
        elif interval > num_batches and trainer.check_val_every_n_epoch is not None and trainer.enable_validation:
            raise ValueError(
                f"val_check_interval must be at most the {num_batches} batches of epoch {trainer.current_epoch}, got "
                f"{interval}: the epoch would never validate. Use a fraction, or check_val_every_n_epoch=None"
            )


class OrderedTrainer(Trainer):
    """`Trainer` with an `estimated_stepping_batches` that counts every epoch as long as it will be.

    Use it in place of `Trainer`, with the same arguments and the callback `OrderedTraining`, if a learning-rate
    scheduler is built from that number and epochs differ in length.
    """

    @property
    def estimated_stepping_batches(self) -> int | float:
        """The optimizer steps of the whole run.

        Raises:
            UnknownStepsError: the ordering decides epoch by epoch how many there are.
        """
        estimate = super().estimated_stepping_batches
        if _num_epochs(self, sampler_of(self)) is None:
            return estimate
        for callback in self.callbacks:  # type: ignore[attr-defined] # Trainer has them
            if isinstance(callback, OrderedTraining):
                callback.plan_first_epoch(sampler_of(self))
        return _num_steps(self)


def sampler_of(trainer: Trainer) -> OrderedSampler:
    """Return the sampler of the training loader, also in `configure_optimizers`: `go.ProgressLR(optimizer, sampler)`.

    Raises:
        RuntimeError: it is not an `OrderedSampler`.
    """
    sampler = _loader_of(trainer).sampler
    if not isinstance(sampler, OrderedSampler):
        raise RuntimeError(  # noqa: TRY004 - the type was right, and Trainer replaced it
            f"the training loader must have an OrderedSampler, but Trainer uses it with a {type(sampler).__name__}: "
            "give it to the DataLoader as sampler= (not inside a batch_sampler), and do not use overfit_batches"
        )
    return sampler


def _num_steps(trainer: Trainer) -> int:
    """The optimizer steps of all epochs."""
    sampler = sampler_of(trainer)
    epochs = range(cast("int", _num_epochs(trainer, sampler)))
    lengths = [_limited(trainer, sampler.num_steps(epoch, epoch + 1)) for epoch in epochs]
    total = sum(math.ceil(length / trainer.accumulate_grad_batches) for length in lengths)
    return total if trainer.max_steps < 0 else min(total, trainer.max_steps)


def _check_schedulers(trainer: Trainer) -> None:
    """Refuse a scheduler that steps once per step, and was perhaps told another number of steps than there will be."""
    are_of_steps = (config.interval == "step" for config in trainer.lr_scheduler_configs)
    are_of_progress = (isinstance(config.scheduler, ProgressLR) for config in trainer.lr_scheduler_configs)
    is_at_risk = any(steps and not follows for steps, follows in zip(are_of_steps, are_of_progress, strict=True))
    if isinstance(trainer, OrderedTrainer) or not is_at_risk or _num_epochs(trainer, sampler_of(trainer)) is None:
        return
    try:
        number = str(_num_steps(trainer))
    except UnknownStepsError:
        number = "another number of" if trainer.max_steps < 0 else str(trainer.max_steps)
    estimate = trainer.estimated_stepping_batches
    if number != str(estimate):
        raise ValueError(
            f"a learning-rate scheduler steps once per step, and Trainer.estimated_stepping_batches is {estimate}, but "
            f"the run will have {number} steps: use gradorder.integrations.lightning.OrderedTrainer in place of "
            "Trainer, whose estimate is right, or go.ProgressLR(optimizer, sampler_of(self.trainer))"
        )


def _check_epochs(trainer: Trainer, sampler: OrderedSampler) -> None:
    """Warn if the run has other epochs than the sampler was told: the learning rate of `ProgressLR` would be wrong."""
    epochs, trained = sampler.epochs, trainer.max_epochs
    if trained is None or trained < 0 or trainer.max_steps >= 0:  # it is not epochs that end the run
        return
    if epochs is None or epochs == trained:
        return
    so = (
        "stays at its end, most often 0" if epochs < trained else "does not come to its end, unless another fit goes on"
    )
    warnings.warn(
        f"the sampler was built with epochs={epochs}, and the trainer has max_epochs={trained}: a learning rate that "
        f"follows the run's progress, as with go.ProgressLR, {so}",
        stacklevel=2,
    )


def _ends_by_sampler(trainer: Trainer, sampler: OrderedSampler) -> bool:
    """True if neither epochs nor steps limit the trainer, but the sampler knows the length of the run."""
    return trainer.max_epochs == -1 and trainer.max_steps == -1 and sampler.epochs is not None


def _num_epochs(trainer: Trainer, sampler: OrderedSampler) -> int | None:
    """The epochs of the run; None if only `max_steps` or `max_time` ends it."""
    if _ends_by_sampler(trainer, sampler):
        return sampler.epochs
    return None if trainer.max_epochs is None or trainer.max_epochs < 0 else trainer.max_epochs


def _check_is_not_limited(trainer: Trainer) -> None:
    """Refuse epochs that are cut short if the sampler ends the run: it would wait for the end of an epoch forever."""
    if trainer.limit_train_batches != 1.0:
        raise ValueError(
            "limit_train_batches must be 1.0 with max_epochs=-1, where the sampler ends the run after a complete "
            f"epoch, got {trainer.limit_train_batches}. Set max_epochs or max_steps"
        )


def _check_end(trainer: Trainer, sampler: OrderedSampler) -> None:
    """Refuse another end of the run than the sampler has: learning rates would not come to their end."""
    if sampler.has_open_end and not _ends_by_sampler(trainer, sampler):
        raise ValueError(
            "max_epochs must be -1 and max_steps -1, as start_run() was called on the sampler or the checkpoint comes "
            f"from such a run, got max_epochs={trainer.max_epochs} and max_steps={trainer.max_steps}: the progress of "
            "the run would not be 1 at its end. Use Trainer(max_epochs=-1)"
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


# -------------------------------------------------------------------- adapter: the private names of Lightning's loop


def _set_length(trainer: Trainer, num_batches: int) -> None:
    """Set the length of the epoch, in the loop and in the loader that it wraps around the user's."""
    trainer.fit_loop._combined_loader.limits = [num_batches]  # type: ignore[union-attr] # noqa: SLF001 - no public way
    trainer.fit_loop.max_batches = num_batches


def _iterate_again(trainer: Trainer) -> None:
    """Replace the first iterator of a run, made before any hook: with workers it has batches of another plan."""
    iter(trainer.fit_loop._data_fetcher)  # type: ignore[arg-type] # noqa: SLF001 - no public way

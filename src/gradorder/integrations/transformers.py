"""Hugging Face `transformers.Trainer`: a mixin that carries scoring, planning, recording and state.

`Trainer` re-shards the loader, skips batches on resume although the sampler already stands behind them, and takes every
epoch to be as long as the first. The mixin gives it the planned batches, the place from the checkpoint, and the length
of each epoch.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from gradorder.integrations.planned import PlannedSampler
from gradorder.losses import IGNORED_TARGET
from gradorder.sampler import OrderedSampler
from gradorder.scores import Score, score_dataset

try:
    from accelerate.data_loader import BatchSamplerShard  # type: ignore[import-untyped]
    from transformers import Trainer
except ModuleNotFoundError as error:
    raise ImportError(
        'gradorder.integrations.transformers needs transformers: pip install "gradorder[transformers]"'
    ) from error

STATE_FILE = "ordered_sampler.pt"

Record = Callable[[Mapping[str, Any], Any], torch.Tensor]
"""From the inputs and outputs of a training step to one score per example, shape (B,)."""


def causal_losses(model: nn.Module, batch: Mapping[str, Any]) -> torch.Tensor:
    """The mean loss of each example's tokens under a causal language model, shape (B,); labels of -100 are left out.

    For the scores of this library: `GradientNorm(causal_losses)`.
    """
    outputs = model(**{name: value for name, value in batch.items() if name != "labels"})
    return causal_losses_of_outputs(batch, outputs)


def causal_losses_of_outputs(batch: Mapping[str, Any], outputs: Any) -> torch.Tensor:  # noqa: ANN401 - a ModelOutput
    """The same out of a training step's own outputs: no extra pass, for `record`."""
    labels = batch["labels"][:, 1:]
    losses = F.cross_entropy(
        outputs.logits[:, :-1].transpose(1, 2), labels, reduction="none", ignore_index=IGNORED_TARGET
    )
    num_tokens = (labels != IGNORED_TARGET).sum(1).clamp(min=1)
    per_example: torch.Tensor = losses.sum(1) / num_tokens
    return per_example


class OrderedTrainer(Trainer):
    """`transformers.Trainer` with an order; for a subclass of it, `class Mine(OrderedTrainer, ItsTrainer): ...`.

    Args:
        order: settings of `OrderedSampler` (ordering, keep, start_epoch, labels, ...). The batch size is the trainer's,
            over all processes; the seed is `args.data_seed` or `args.seed`.
        score: what the examples are scored by before each epoch that needs it.
        record: without `score`, what is remembered of each training step: a function of its inputs and outputs.
        scoring: further arguments of `score_dataset`; `collate_fn` is the training loader's if not given.

    Checkpoints hold the sampler's place, also within an epoch, and a resumed run continues there. The number of steps,
    for the scheduler too, counts each epoch as long as it will be.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - Trainer's own
        order: Mapping[str, Any] | None = None,
        score: Score | None = None,
        record: Record | None = None,
        scoring: Mapping[str, Any] | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        if not hasattr(Trainer, "_run_epoch"):
            raise ImportError("gradorder.integrations.transformers needs a transformers whose Trainer has _run_epoch")
        self.order = dict(order or {})
        self.score, self.record, self.scoring = score, record, dict(scoring or {})
        self.ordered_sampler: OrderedSampler | None = None
        self._loader: DataLoader[Any] | None = None
        self._is_in_training_step = False
        self._recorded: torch.Tensor | None = None
        super().__init__(*args, **kwargs)

    # ---------------------------------------------------------------- the loader

    def _get_train_sampler(self, train_dataset: Any = None) -> PlannedSampler:  # noqa: ANN401
        dataset = self.train_dataset if train_dataset is None else train_dataset
        settings = {
            "seed": self.args.seed if self.args.data_seed is None else self.args.data_seed,
            "drop_last": self.args.dataloader_drop_last,
            **self.order,
        }
        self.ordered_sampler = OrderedSampler(dataset, self._train_batch_size * self.args.world_size, **settings)
        return PlannedSampler(self.ordered_sampler)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The loader that `Trainer` prepares, with its sharding undone: the sampler gives each process its slice."""
        loader: DataLoader[Any] = super().get_train_dataloader()
        shards = loader.batch_sampler
        if isinstance(shards, BatchSamplerShard):
            shards.num_processes, shards.process_index, shards.even_batches = 1, 0, False
        self._loader = loader
        return loader

    # ---------------------------------------------------------------- planning

    def set_initial_training_values(self, args: Any, dataloader: DataLoader[Any]) -> tuple[Any, ...]:  # noqa: ANN401
        """Trainer's own, with the epochs as long as they will be."""
        if self.score is None:
            self._sampler().set_epoch(0)  # nothing is remembered yet: complete, and to be counted so
        values = list(super().set_initial_training_values(args, dataloader))
        if args.max_steps > 0:
            values[0], values[6] = self._num_epochs(args.max_steps), args.max_steps
        else:
            whole, part = divmod(args.num_train_epochs, 1)
            steps = sum(self._num_updates(epoch) for epoch in range(int(whole)))
            values[6] = steps + math.ceil(part * self._num_updates(int(whole))) if part else steps
        return tuple(values)

    def _num_epochs(self, max_steps: int) -> int:
        epoch = steps = 0
        while steps < max_steps:
            steps += self._num_updates(epoch)
            epoch += 1
        return epoch

    def _num_updates(self, epoch: int) -> int:
        """Optimizer steps of an epoch."""
        return math.ceil(self._sampler().num_steps(epoch, epoch + 1) / self.args.gradient_accumulation_steps)

    def _run_epoch(self, *, epoch: int, **settings: Any) -> None:  # type: ignore[override] # noqa: ANN401 - Trainer's own
        sampler = self._sampler()
        sampler.set_epoch(epoch, scores=None if self.score is None else self._scores)
        if sampler.is_weighted:
            raise ValueError(
                f"ordering must not weight its examples with Trainer, which averages losses by itself, got {sampler}"
            )
        settings["steps_in_epoch"] = sampler.steps_left
        settings["num_update_steps_per_epoch"] = math.ceil(sampler.steps_left / self.args.gradient_accumulation_steps)
        super()._run_epoch(epoch=epoch, **settings)  # type: ignore[no-untyped-call]

    def _scores(self) -> torch.Tensor:
        loader = cast("DataLoader[Any]", self._loader)
        settings = {"collate_fn": loader.collate_fn, **self.scoring}
        return score_dataset(cast("nn.Module", self.model), loader.dataset, cast("Score", self.score), **settings)

    def _sampler(self) -> OrderedSampler:
        if self.ordered_sampler is None:
            raise RuntimeError("the sampler is there once training has begun")
        return self.ordered_sampler

    # ---------------------------------------------------------------- consuming

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401 - Trainer's own
        """Trainer's own; then the batch is counted, and its scores remembered."""
        self._is_in_training_step, self._recorded = True, None
        try:
            loss: torch.Tensor = super().training_step(*args, **kwargs)
        finally:
            self._is_in_training_step = False
        self._sampler().step(self._recorded)
        return loss

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,  # noqa: ANN401 - a number or a tensor
    ) -> Any:  # noqa: ANN401
        """Trainer's own; in training its outputs are recorded, and a mean over an uneven slice is put right."""
        given = dict(inputs)
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        if self._is_in_training_step:
            if self.score is None and self.record is not None:
                self._recorded = self.record(given, outputs).detach()
            if num_items_in_batch is None or not self.args.average_tokens_across_devices:
                loss = loss * self._sampler().loss_scale
        return (loss, outputs) if return_outputs else loss

    # ---------------------------------------------------------------- state

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:  # noqa: ANN401
        super()._save_checkpoint(model, trial)
        state = self._sampler().state_dict()  # on all processes
        if self.args.should_save:
            torch.save(state, Path(self._get_output_dir(trial)) / f"checkpoint-{self.state.global_step}" / STATE_FILE)

    def _init_training_state(
        self,
        max_steps: int,
        steps_per_epoch: int,
        num_epochs: int,
        checkpoint: str | None,
        trial: Any,  # noqa: ANN401
    ) -> tuple[int, int]:
        """Where to continue: the epoch, and no batches to skip, since the sampler stands behind them."""
        super()._init_training_state(max_steps, steps_per_epoch, num_epochs, checkpoint, trial)
        if checkpoint is None:
            return 0, 0
        path = Path(checkpoint) / STATE_FILE
        if not path.exists():
            raise FileNotFoundError(f"{checkpoint} must hold {STATE_FILE}: it was not saved by an OrderedTrainer")
        sampler = self._sampler()
        sampler.load_state_dict(torch.load(path, weights_only=True))
        return sampler.epoch + (sampler.steps_left == 0), 0

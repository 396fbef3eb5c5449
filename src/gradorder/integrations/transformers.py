"""Hugging Face `transformers.Trainer`: a mixin that carries scoring, planning, recording and state.

`Trainer` re-shards the loader, skips batches on resume although the sampler already stands behind them, and takes every
epoch to be as long as the first. The mixin gives it the planned batches, the place from the checkpoint, and the length
of each epoch.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from gradorder.errors import UnknownStepsError
from gradorder.integrations.versions import check_version
from gradorder.losses import token_losses
from gradorder.sampler import OrderedSampler
from gradorder.scores import Score, score_dataset

check_version("transformers", "5.3")
try:
    from transformers import Trainer
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

    from gradorder.integrations.accelerate import ordered_loader
except ModuleNotFoundError as error:
    raise ImportError(
        'gradorder.integrations.transformers needs transformers: pip install "gradorder[transformers]"'
    ) from error

STATE_FILE = "ordered_sampler.pt"

_LOADER_SETTINGS = (
    "collate_fn",
    "num_workers",
    "pin_memory",
    "worker_init_fn",
    "multiprocessing_context",
    "persistent_workers",
    "prefetch_factor",
)
"""What of Trainer's own loader stays."""

Record = Callable[[Mapping[str, Any], Any], torch.Tensor]
"""From the inputs and outputs of a training step to one score per example, shape (B,)."""


def causal_losses(model: nn.Module, batch: Mapping[str, Any]) -> torch.Tensor:
    """The mean loss of each example's tokens under a causal language model, shape (B,); labels of -100 are left out.

    For the scores of this library: `GradientNorm(causal_losses)`.
    """
    outputs = model(**{name: value for name, value in batch.items() if name != "labels"})
    return causal_losses_of_outputs(batch, outputs)


def causal_losses_of_outputs(batch: Mapping[str, Any], outputs: Any) -> torch.Tensor:  # noqa: ANN401 - a ModelOutput
    """The same out of a training step's own outputs, `token_losses` of their logits: no extra pass, for `record`."""
    return token_losses(outputs.logits, batch["labels"])


class OrderedTrainer(Trainer):
    """`transformers.Trainer` with an order; for a subclass of it, `class Mine(OrderedTrainer, ItsTrainer): ...`.

    Args:
        order: settings of `OrderedSampler` (ordering, keep, start_epoch, labels, ...), or a function that makes a
            sampler of dataset and batch size, such as `partial(go.recommended, epochs=3)`. The batch size is the
            trainer's, over all processes; so are, of settings, seed, `drop_last` and epochs, if not given. A function
            gives its own: the trainer's `seed` is not the sampler's then.
        score: what the examples are scored by before each epoch that needs it.
        record: without `score`, what is remembered of each training step: a function of its inputs and of what the
            model gave for them in the pass that the loss comes from.
        scoring: further arguments of `score_dataset`; `collate_fn` is the training loader's if not given.

    Checkpoints hold the sampler's place, also within an epoch, and a resumed run continues there. The number of steps,
    for the scheduler too, counts each epoch as long as it will be. Where an ordering such as `go.recommended`'s decides
    epoch by epoch what to leave out, the trainer counts complete epochs, and its scheduler follows the run's progress.

    Raises:
        ValueError: when training begins, if the sampler has other epochs than `num_train_epochs`, or a function does
            not make it as `dataloader_drop_last` or `data_seed` ask for.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - Trainer's own
        order: Mapping[str, Any] | Callable[..., OrderedSampler],
        score: Score | None = None,
        record: Record | None = None,
        scoring: Mapping[str, Any] | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        self.order = order
        self.score, self.record, self.scoring = score, record, dict(scoring or {})
        self.ordered_sampler: OrderedSampler | None = None
        self._loader: DataLoader[Any] | None = None
        self._is_in_training_step = False
        self._recorded: torch.Tensor | None = None
        self._steps_are_known = True
        super().__init__(*args, **kwargs)

    # ---------------------------------------------------------------- the loader

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Trainer's own loader, with the sampler's batches instead of those that it would cut again."""
        own = super().get_train_dataloader()
        batch_size = self.get_total_train_batch_size(self.args) // self.args.gradient_accumulation_steps
        self.ordered_sampler = self._new_sampler(own.dataset, batch_size)
        settings = {name: getattr(own, name) for name in _LOADER_SETTINGS}
        self._loader = ordered_loader(self.accelerator, own.dataset, self.ordered_sampler, **settings)
        return self._loader

    def _new_sampler(self, dataset: Any, batch_size: int) -> OrderedSampler:  # noqa: ANN401 - any map-style dataset
        args = self.args
        if callable(self.order):
            sampler = self.order(dataset, batch_size)
            if args.dataloader_drop_last and not sampler.drop_last:
                raise ValueError("order must make a sampler with drop_last=True, as dataloader_drop_last is True")
            if args.data_seed not in {None, sampler.seed}:
                raise ValueError(f"order must make a sampler with seed=data_seed={args.data_seed}, got {sampler.seed}")
            return sampler
        seed = args.seed if args.data_seed is None else args.data_seed
        epochs = None if args.max_steps > 0 else math.ceil(args.num_train_epochs)
        trainers = {"seed": seed, "drop_last": args.dataloader_drop_last, "epochs": epochs}
        return OrderedSampler(dataset, batch_size, **{**trainers, **self.order})

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
            if part and not self._steps_are_known:
                raise ValueError(
                    f"num_train_epochs must be whole with {self._sampler()}, got {args.num_train_epochs}: where an "
                    "epoch ends is known only when it begins"
                )
            epochs, trained = self._sampler().epochs, math.ceil(args.num_train_epochs)
            if epochs not in {None, trained}:
                raise ValueError(
                    f"order must make a sampler with epochs={trained}, as num_train_epochs is "
                    f"{args.num_train_epochs:g}, got epochs={epochs}: its progress would end at another place"
                )
        return tuple(values)

    def _num_epochs(self, max_steps: int) -> int:
        epoch = steps = 0
        while steps < max_steps:
            steps += self._num_updates(epoch)
            epoch += 1
        return epoch if self._steps_are_known else max_steps  # an epoch has a step at least

    def _num_updates(self, epoch: int) -> int:
        """Optimizer steps of an epoch; of a complete one, where only its plan will tell what is left out."""
        sampler = self._sampler()
        try:
            num_steps = sampler.num_steps(epoch, epoch + 1)
        except UnknownStepsError:
            self._steps_are_known = False
            num_steps = sampler.num_steps(0, 1)
        return math.ceil(num_steps / self.args.gradient_accumulation_steps)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:  # noqa: ANN401 - torch's
        """Trainer's own; it follows the run's progress where nobody knows how many steps there will be."""
        is_own = self.lr_scheduler is None
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        if is_own and not self._steps_are_known and self.args.max_steps <= 0 and isinstance(scheduler, LambdaLR):
            sampler = self._sampler()
            scheduler.lr_lambdas = [
                lambda _, factor=factor: factor(sampler.progress * num_training_steps)  # type: ignore[misc]
                for factor in scheduler.lr_lambdas
            ]
        return scheduler

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
        if not self._is_in_training_step:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        given = dict(inputs)
        with _last_output_of(model) as output:
            result: Any = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if self.score is None and self.record is not None:
            self._recorded = self.record(given, output[0]).detach()
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            return result
        scale = self._sampler().loss_scale
        return (result[0] * scale, result[1]) if return_outputs else result * scale

    # ---------------------------------------------------------------- state

    def save_model(self, output_dir: str | None = None, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Trainer's own
        """Trainer's own; into the checkpoint of this step goes the sampler's place, too."""
        super().save_model(output_dir, *args, **kwargs)
        if output_dir is not None and Path(output_dir).name == f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}":
            state = self._sampler().state_dict()  # on all processes
            if self.args.should_save:
                torch.save(state, Path(output_dir) / STATE_FILE)

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


@contextmanager
def _last_output_of(model: nn.Module) -> Iterator[list[Any]]:
    """What the model gives inside, the last of it: a Trainer need not hand it out, and some would compute it again."""
    output: list[Any] = []

    def keep(module: nn.Module, inputs: Any, given: Any) -> None:  # noqa: ANN401, ARG001 - a hook's
        output[:] = [given]

    handle = model.register_forward_hook(keep)
    try:
        yield output
    finally:
        handle.remove()

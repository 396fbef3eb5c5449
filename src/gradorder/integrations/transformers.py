"""Hugging Face `transformers.Trainer`: a subclass that scores, plans, records and saves.

`Trainer` splits the batches of its loader over the processes, skips batches on resume although the sampler has done so
already, and takes every epoch to be as long as the first. `OrderedTrainer` gives it the planned batches, the position
from the checkpoint, and the length of each epoch.
"""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Sampler

from gradorder.errors import UnknownStepsError
from gradorder.integrations.framework import check_version, epoch_metrics
from gradorder.losses import token_losses
from gradorder.sampler import OrderedSampler
from gradorder.scores import Score, score_dataset

check_version("transformers", "5.3")
try:
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

    from gradorder.integrations.accelerate import ordered_loader
    from gradorder.integrations.transformers_loop import EpochByEpochTrainer
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
"""The settings of Trainer's own loader that are kept."""

Record = Callable[[Mapping[str, Any], Any], torch.Tensor]
"""From the inputs and outputs of a training step to one score per example, shape (B,)."""


def causal_losses(model: nn.Module, batch: Mapping[str, Any]) -> torch.Tensor:
    """Return the mean loss of each example's tokens under a causal language model, shape (B,), without labels of -100.

    For the scores of this library: `GradientNorm(causal_losses)`.
    """
    outputs = model(**{name: value for name, value in batch.items() if name != "labels"})
    return causal_losses_of_outputs(batch, outputs)


def causal_losses_of_outputs(batch: Mapping[str, Any], outputs: Any) -> torch.Tensor:  # noqa: ANN401 - a ModelOutput
    """Return the same from the outputs of a training step, for `record`: the `token_losses` of their logits.

    Raises:
        ValueError: the outputs have no logits.
    """
    logits = getattr(outputs, "logits", None)
    if logits is None:
        raise ValueError(
            f"causal_losses_of_outputs needs logits, and {type(outputs).__name__} has none. TRL's trainers have none: "
            "use gradorder.integrations.trl.OrderedSFTTrainer without record, or with another of them, such as "
            "DPOTrainer, pass record=f, where f(batch, outputs) gives one number per example from outputs.log_probs"
        )
    return token_losses(logits, batch["labels"])


class OrderedTrainer(EpochByEpochTrainer):
    """`transformers.Trainer` with an order; for a subclass of it, `class Mine(OrderedTrainer, ItsTrainer): ...`.

    Args:
        order: settings of `OrderedSampler` (ordering, keep, start_epoch, labels, ...), or a function that makes a
            sampler from dataset and batch size, such as `partial(go.recommended, epochs=3)`. The batch size is that of
            the trainer, over all processes. Settings may leave out seed, `drop_last` and epochs: then they are the
            trainer's. A function makes its own choice: the trainer's `seed` is not the sampler's then.
        score: computes the scores of all examples before each epoch that needs them.
        record: without `score`, computes the scores to remember from each training step: a function of its inputs and
            of the outputs of the model, from the same pass as the loss.
        scoring: further arguments of `score_dataset`; `collate_fn` is that of the training loader by default.

    Checkpoints contain the sampler's position, also within an epoch. A resumed run is the same run, also with dropout.
    The number of steps, also for the scheduler, counts each epoch as long as it will be. If an ordering, such as that
    of `go.recommended`, decides epoch by epoch what to skip, the trainer counts complete epochs, and its scheduler
    follows the progress of the run. There are `num_train_epochs` epochs, unless `order` is a function that calls
    `start_run()` on the sampler: then the run ends when `sampler.progress` is 1, as with `sampler.run()`.

    Raises:
        ValueError: when training begins, if the ordering needs scores and there is neither `score` nor `record`; if the
            trainer's own sampler repeats examples or groups them by length; if the sampler has other epochs than
            `num_train_epochs`; or if a function does not make it as `dataloader_drop_last` or `data_seed` ask for.
        RuntimeError: a subclass computes its loss without `super().compute_loss`, so that nothing can be recorded.
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
        self._step: _RecordedStep | None = None
        self._steps_are_known = True
        super().__init__(*args, **kwargs)

    # ---------------------------------------------------------------- the loader

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Trainer's own loader, with the sampler's batches."""
        strategy = getattr(self.args, "train_sampling_strategy", "random")
        if strategy != "random":
            raise ValueError(
                f'train_sampling_strategy must be "random" with an order, got "{strategy}": the order decides which '
                "examples share a batch. Leave it out of TrainingArguments, or use Trainer without an order"
            )
        own = super().get_train_dataloader()
        self.check_own_loader(own)
        batch_size = self.get_total_train_batch_size(self.args) // self.args.gradient_accumulation_steps
        self.ordered_sampler = self._new_sampler(own.dataset, batch_size)
        self._check_scores(self.ordered_sampler)
        settings = {name: getattr(own, name) for name in _LOADER_SETTINGS}
        self._loader = ordered_loader(self.accelerator, own.dataset, self.ordered_sampler, **settings)
        return self._loader

    def check_own_loader(self, loader: DataLoader[Any]) -> None:
        """Refuse a trainer whose own sampler repeats examples, as GRPO's does to compare answers to one prompt."""
        if _repeats_examples(loader):
            raise ValueError(
                f"{type(self).__name__} cannot have an order: the trainer's own sampler repeats examples in an epoch, "
                "such as one prompt for each of its generations, and an order would tear them apart. Use the trainer "
                "without OrderedTrainer, or the class that gradorder.integrations.trl has for it"
            )

    def _check_scores(self, sampler: OrderedSampler) -> None:
        if sampler.needs_scores and self.score is None and self.record is None:
            raise ValueError(
                f"score or record must be given, because {sampler} orders by scores: pass for example "
                "record=causal_losses_of_outputs, which remembers the losses of training itself, or, for plain "
                'shuffling, order={"ordering": go.Shuffled()}'
            )

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

    def run_length(self) -> tuple[int, int]:
        """The number of epochs, and of optimizer steps."""
        args = self.args
        if self.score is None:
            self._sampler().set_epoch(0)  # nothing is remembered yet: complete, and to be counted so
        if args.max_steps > 0:
            self._check_end()
            return self._num_epochs(args.max_steps), args.max_steps
        whole, part = divmod(args.num_train_epochs, 1)
        steps = sum(self._num_updates(epoch) for epoch in range(int(whole)))
        if part:
            steps += math.ceil(part * self._num_updates(int(whole)))
        epochs = math.ceil(args.num_train_epochs)
        self._check_epochs(epochs, is_partial=part > 0)
        return (sys.maxsize if self.has_open_end() else epochs), steps

    def _check_end(self) -> None:
        """Refuse two ends of one run: the learning rate follows the steps, and the sampler its progress."""
        if self.has_open_end():
            raise ValueError(
                f"max_steps must not be given if order calls start_run() on the sampler, which ends the run then, got "
                f"{self.args.max_steps}. Leave out one of the two"
            )

    def _check_epochs(self, epochs: int, *, is_partial: bool) -> None:
        sampler, given = self._sampler(), self.args.num_train_epochs
        if is_partial and not self._steps_are_known:
            raise ValueError(
                f"num_train_epochs must be whole with {sampler}, got {given}: where an epoch ends is known only when "
                "it begins. Use a whole number, or max_steps"
            )
        if sampler.epochs not in {None, epochs}:
            raise ValueError(
                f"order must make a sampler with epochs={epochs}, as num_train_epochs is {given:g}, got "
                f"epochs={sampler.epochs}: its progress would end at another place"
            )

    def _num_epochs(self, max_steps: int) -> int:
        epoch = steps = 0
        while steps < max_steps:
            steps += self._num_updates(epoch)
            epoch += 1
        return epoch if self._steps_are_known else max_steps  # an epoch has a step at least

    def _num_updates(self, epoch: int) -> int:
        """Optimizer steps of an epoch; those of a complete one if only its plan will tell."""
        sampler = self._sampler()
        try:
            num_steps = sampler.num_steps(epoch, epoch + 1)
        except UnknownStepsError:
            self._steps_are_known = False
            num_steps = sampler.num_steps(0, 1)
        return math.ceil(num_steps / self.args.gradient_accumulation_steps)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:  # noqa: ANN401 - torch's
        """Trainer's own; it follows the progress of the run if the number of steps is not known."""
        is_own = self.lr_scheduler is None
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        if is_own and not self._steps_are_known and self.args.max_steps <= 0 and isinstance(scheduler, LambdaLR):
            sampler = self._sampler()
            scheduler.lr_lambdas = [
                lambda _, factor=factor: factor(sampler.progress * num_training_steps)  # type: ignore[misc]
                for factor in scheduler.lr_lambdas
            ]
        return scheduler

    def begin_epoch(self, epoch: int) -> int:
        """Plan the epoch; the number of batches that are left of it."""
        sampler = self._sampler()
        sampler.set_epoch(epoch, scores=None if self.score is None else self._scores)
        if sampler.is_weighted:
            raise ValueError(
                f"ordering must not weight its examples with Trainer, which averages losses by itself, got {sampler}. "
                "Use an ordering without weights, or train in a loop of your own"
            )
        return sampler.steps_left

    def epoch_position(self) -> float:
        """Where training is, in epochs."""
        sampler = self._sampler()
        return sampler.epoch + 1 - sampler.steps_left / sampler.num_steps(sampler.epoch, sampler.epoch + 1)

    def has_open_end(self) -> bool:
        """Whether the sampler ends the run, because `order` called its `start_run`."""
        return self._sampler().has_open_end

    def is_run_over(self) -> bool:
        """Whether the sampler ends the run here; `max_steps` ends it otherwise."""
        return self.args.max_steps <= 0 and self._sampler().is_over

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Trainer's own
        """Trainer's own; the logs of training also get `gradorder/kept` and `gradorder/skipped`."""
        if "loss" in logs:
            logs |= epoch_metrics(self._sampler())
        super().log(logs, *args, **kwargs)

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
        self._step = step = _RecordedStep()
        try:
            loss: torch.Tensor = super().training_step(*args, **kwargs)
        finally:
            self._step = None
        if not step.is_computed_here and (self._records or self._sampler().loss_scale != 1):
            raise RuntimeError(
                f"{type(self).__name__}.compute_loss must call super().compute_loss(...), which records the scores and "
                "scales the loss of an uneven slice, and did not: call it and change its result, or give the loss as "
                "compute_loss_func to the trainer"
            )
        self._sampler().step(step.scores)
        return loss

    @property
    def _records(self) -> bool:
        return self.score is None and self.record is not None

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,  # noqa: ANN401 - a number or a tensor
    ) -> Any:  # noqa: ANN401
        """Trainer's own; in training, its outputs are recorded and the mean over an uneven slice is scaled."""
        if self._step is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        given = dict(inputs)
        with _last_output_of(model) as output:
            result: Any = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        self._step.is_computed_here = True
        if self._records:
            self._step.scores = cast("Record", self.record)(given, output[0]).detach()
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            return result
        scale = self._sampler().loss_scale
        return (result[0] * scale, result[1]) if return_outputs else result * scale

    # ---------------------------------------------------------------- state

    def save_model(self, output_dir: str | None = None, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Trainer's own
        """Trainer's own; a checkpoint of this step also gets the sampler's position."""
        super().save_model(output_dir, *args, **kwargs)
        if output_dir is not None and Path(output_dir).name == f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}":
            state = self._sampler().state_dict()  # on all processes
            if self.args.should_save:
                torch.save(state, Path(output_dir) / STATE_FILE)

    def resume(self, checkpoint: Path) -> int:
        """Load the sampler's position; the epoch to continue with."""
        path = checkpoint / STATE_FILE
        if not path.exists():
            raise FileNotFoundError(
                f"{checkpoint} must contain {STATE_FILE}: it was not saved by an OrderedTrainer. Train from the start, "
                "or load its model without resume_from_checkpoint"
            )
        sampler = self._sampler()
        has_open_end = sampler.has_open_end
        sampler.load_state_dict(torch.load(path, weights_only=True))
        if sampler.has_open_end != has_open_end:
            calls = "call" if sampler.has_open_end else "not call"
            raise ValueError(
                f"order must {calls} start_run() on the sampler, as in the run that saved {checkpoint}: the number of "
                "epochs and the learning rates depend on it"
            )
        return sys.maxsize if has_open_end and sampler.is_over else sampler.epoch + (sampler.steps_left == 0)


class _RecordedStep:
    """One training step: its scores, and whether `OrderedTrainer` computed its loss."""

    scores: torch.Tensor | None = None
    is_computed_here = False


def _repeats_examples(loader: DataLoader[Any]) -> bool:
    """True if one pass of the loader's sampler gives an example more than once."""
    sampler: Any = loader
    while not isinstance(sampler, Sampler) or hasattr(sampler, "batch_sampler") or hasattr(sampler, "sampler"):
        sampler = getattr(sampler, "batch_sampler", None) or getattr(sampler, "sampler", None)
        if sampler is None:  # an iterable dataset, which the OrderedSampler refuses
            return False
    num_indices, num_examples = len(cast("Sized", sampler)), len(cast("Sized", loader.dataset))
    if num_indices > num_examples:
        return True
    with torch.random.fork_rng(devices=[]):  # a sampler without a generator draws its seed from the global one
        indices = [index for each in sampler for index in (each if isinstance(each, list) else [each])]
    return len(set(indices)) < len(indices)


@contextmanager
def _last_output_of(model: nn.Module) -> Iterator[list[Any]]:
    """The last output of the model inside that has gradients: a Trainer need not return it.

    Preference training calls the model without gradients, too, as its own reference.
    """
    output: list[Any] = []

    def keep(module: nn.Module, inputs: Any, given: Any) -> None:  # noqa: ANN401, ARG001 - a hook's
        if torch.is_grad_enabled():
            output[:] = [given]

    handle = model.register_forward_hook(keep)
    try:
        yield output
    finally:
        handle.remove()

"""TRL's `GRPOTrainer` and `RLOOTrainer` with an ordering of their prompts.

TRL generates a group of completions for each prompt. If all of them get the same reward, all advantages are zero, and
so is the gradient. The trainers here remember the rewards of every prompt's last group, and an ordering such as
`go.Informative` decides with them which prompts an epoch has.
"""

import math
import warnings
from pathlib import Path
from typing import Any, cast, final

import torch
from torch import nn

from gradorder.integrations.framework import check_version
from gradorder.integrations.prompts import PromptSampler
from gradorder.orderings import Ordering

check_version("trl", "1.16")
try:
    from datasets import Dataset  # type: ignore[import-untyped]
    from transformers import Trainer
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
    from trl import GRPOTrainer, RLOOTrainer  # type: ignore[attr-defined] # its modules come when they are asked for
except ModuleNotFoundError as error:
    raise ImportError('gradorder.integrations.trl needs TRL: pip install "gradorder[trl]"') from error

INDEX_COLUMN = "gradorder_index"
"""The column that carries the index of each prompt from the dataset to its rewards."""

STATE_FILE, PLACE = "prompt_sampler.pt", "trained_batches"
"""The state of the sampler in a checkpoint; in it, the batches of the loader that its epoch has had, 0 at its end."""

_HOOKS = ("_get_train_sampler", "_calculate_rewards", "_prepare_inputs")


class OrderedPrompts(Trainer):
    """A mixin for trainers with TRL's `GRPOTrainer` interface: `class Mine(OrderedPrompts, ItsTrainer): ...`.

    Args:
        prompts: the ordering that decides which prompts an epoch has, such as `go.Informative(every=4)`. An epoch keeps
            its number of steps. `go.Shuffled()` is TRL's own behaviour.

    All other arguments are the trainer's. `trainer.prompt_sampler.pass_rates` is the mean reward of each prompt's last
    group. Checkpoints hold the state of the sampler, and a resumed run continues with the same prompts. Evaluation does
    not change it.

    A checkpoint in the middle of a generation cycle (`steps_per_generation * num_iterations` steps of the loader)
    cannot resume exactly, as TRL does not save completions: they are generated again, with a warning.

    Raises:
        TypeError: `train_dataset` is not a `datasets.Dataset`, or the trainer calculates no rewards while it trains,
            such as `AsyncGRPOTrainer`.
        ValueError: the dataset already has a column "gradorder_index", is smaller than a generation batch, or the
            arguments have `remove_unused_columns`, `ignore_data_skip`, or no `shuffle_dataset`.
    """

    reward_weights: torch.Tensor
    reward_clip_range: tuple[float, float] | None = None  # RLOO has one
    _step: int
    _buffered_inputs: Any

    def __init_subclass__(cls, **settings: Any) -> None:  # noqa: ANN401 - passed on
        """Refuse trainers that lack the methods this class builds on."""
        super().__init_subclass__(**settings)
        missing = [name for name in _HOOKS if not any(name in vars(base) for base in cls.__mro__[2:])]
        if missing:
            raise TypeError(
                f"{cls.__name__} must inherit from a trainer such as trl.GRPOTrainer, got one without "
                f"{', '.join(missing)}: prompts cannot be ordered by rewards that training does not calculate"
            )

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - the trainer's own
        prompts: Ordering,
        train_dataset: Dataset,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        self.prompts = prompts
        super().__init__(*args, train_dataset=_with_index(train_dataset), **kwargs)  # type: ignore[misc]
        _check_arguments(self.args)
        _warn_of_gradients(self)
        _warn_of_checkpoints(self.args)
        self.prompt_sampler: PromptSampler = self._get_train_sampler()

    def _get_train_sampler(self, dataset: Dataset | None = None) -> PromptSampler:
        """A new sampler, with the sizes of the trainer's own."""
        own: Any = super()._get_train_sampler(dataset)
        self.prompt_sampler = PromptSampler(
            own.num_samples,
            prompts_per_batch=own.batch_size,
            num_generations=own.mini_repeat_count,
            num_repeats=own.repeat_count,
            ordering=self.prompts,
            seed=own.seed,
        )
        return self.prompt_sampler

    def _run_epoch(self, *, epoch: int, **settings: Any) -> None:  # type: ignore[override] # noqa: ANN401 - Trainer's own
        self.prompt_sampler.plan(epoch)
        super()._run_epoch(epoch=epoch, **settings)  # type: ignore[no-untyped-call]

    def _calculate_rewards(self, inputs: list[dict[str, Any]], *rest: Any) -> torch.Tensor:  # noqa: ANN401
        """The trainer's own, of all processes; in training they are remembered."""
        rewards: torch.Tensor = super()._calculate_rewards(inputs, *rest)  # type: ignore[misc] # the trainer's own
        if cast("nn.Module", self.model).training:
            indices = torch.tensor([row[INDEX_COLUMN] for row in inputs], device=rewards.device)
            totals = (rewards * self.reward_weights.to(rewards.device)).nansum(1)
            totals[rewards.isnan().all(1)] = torch.nan
            if self.reward_clip_range:  # rewards that differ may be equal after it
                totals = totals.clamp(*self.reward_clip_range)
            self.prompt_sampler.record(self.accelerator.gather(indices), totals)
        return rewards

    def _save_checkpoint(self, model: Any, trial: Any) -> None:  # noqa: ANN401 - the trainer's own
        # First: a checkpoint that looks complete, but lacks this file, could not be resumed from.
        if self.args.should_save:
            sampler, run = self.prompt_sampler, Path(self._get_output_dir(trial=trial))
            place = self._step % (sampler.num_batches * sampler.num_repeats)
            state = {**sampler.state_dict(), PLACE: place}
            _save(state, run / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        super()._save_checkpoint(model, trial)

    def _init_training_state(
        self,
        max_steps: int,
        steps_per_epoch: int,
        num_epochs: int,
        checkpoint: str | None,
        trial: Any,  # noqa: ANN401 - the trainer's own
    ) -> tuple[int, int]:
        """Where to continue; the sampler as it was there, and the place in the generation cycle."""
        epoch, num_batches = super()._init_training_state(max_steps, steps_per_epoch, num_epochs, checkpoint, trial)
        # TRL would begin a new generation cycle here, wherever the old one was.
        self._step, self._buffered_inputs = num_batches, None
        if checkpoint is not None:
            self._load(Path(checkpoint), epoch if num_batches else epoch - 1, num_batches)
            if num_batches % _cycle(self.args):
                warnings.warn(
                    f"{checkpoint} is in the middle of a generation cycle of {_cycle(self.args)} steps of the loader. "
                    "Its completions are generated again, so the run is not exactly the uninterrupted one.",
                    stacklevel=2,
                )
        return epoch, num_batches

    def _load(self, checkpoint: Path, epoch: int, num_batches: int) -> None:
        path = checkpoint / STATE_FILE
        if not path.exists():
            raise FileNotFoundError(f"{checkpoint} must hold {STATE_FILE}: it was not saved by {type(self).__name__}")
        state = torch.load(path, weights_only=True)
        self.prompt_sampler.load_state_dict(state)
        saved = (self.prompt_sampler.epoch, state.get(PLACE))
        if saved != (epoch, num_batches):
            raise ValueError(
                f"{checkpoint} was saved in epoch {saved[0]} after {saved[1]} batches, but with these arguments its "
                f"step is in epoch {epoch} after {num_batches}: use the same gradient_accumulation_steps as before"
            )


@final
class OrderedGRPOTrainer(OrderedPrompts, GRPOTrainer):
    """`trl.GRPOTrainer` with an ordering of its prompts: the arguments of both, see `OrderedPrompts`."""


@final
class OrderedRLOOTrainer(OrderedPrompts, RLOOTrainer):
    """`trl.RLOOTrainer` with an ordering of its prompts: the arguments of both, see `OrderedPrompts`.

    `RLOOConfig` has a KL coefficient above zero by default; set `beta=0.0`.
    """


def _with_index(dataset: Any) -> Dataset:  # noqa: ANN401 - whatever the user gave
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"train_dataset must be a datasets.Dataset, got {type(dataset).__name__}: only prompts with an index can "
            "be put in an order"
        )
    if INDEX_COLUMN in dataset.column_names:
        raise ValueError(f"train_dataset must not have a column {INDEX_COLUMN!r}: it is added for the sampler")
    return dataset.add_column(INDEX_COLUMN, list(range(len(dataset))))


def _check_arguments(args: Any) -> None:  # noqa: ANN401 - a GRPOConfig or RLOOConfig
    if args.remove_unused_columns:
        raise ValueError("remove_unused_columns must be False, got True: the index of each prompt is such a column")
    if args.ignore_data_skip:
        raise ValueError("ignore_data_skip must be False, got True: a resumed run would begin its epoch again")
    if not args.shuffle_dataset:
        raise ValueError("shuffle_dataset must be True, got False: `prompts` decides the order, use go.Sequential()")


def _warn_of_gradients(trainer: Any) -> None:  # noqa: ANN401 - a GRPOTrainer or RLOOTrainer
    """Say once why a group with equal rewards has a gradient here, if it has one."""
    args = trainer.args
    terms = {
        f"beta={args.beta}": args.beta != 0,
        "multi_objective_aggregation='normalize_then_sum'": _has(
            args, "multi_objective_aggregation", "normalize_then_sum"
        ),
        "an entropy bonus": getattr(trainer, "_entropy_bonus_enabled", False),
        "a router's auxiliary loss": getattr(trainer, "aux_loss_enabled", False),
    }
    given = [name for name, is_given in terms.items() if is_given]
    if given and trainer.prompts.needs_scores:
        warnings.warn(
            f"Groups with equal rewards have a gradient with {' and '.join(given)}. {trainer.prompts} skips them as if "
            "they had none.",
            stacklevel=4,
        )


def _has(args: Any, name: str, value: object) -> bool:  # noqa: ANN401
    return bool(getattr(args, name, None) == value)


def _warn_of_checkpoints(args: Any) -> None:  # noqa: ANN401
    """Say once that checkpoints will be in the middle of generation cycles, where that is known."""
    cycle, accumulated = _cycle(args), args.gradient_accumulation_steps
    if args.save_strategy == "steps" and args.save_steps >= 1 and args.save_steps * accumulated % cycle:
        multiple = cycle // math.gcd(cycle, accumulated)
        warnings.warn(
            f"save_steps={args.save_steps} puts checkpoints in the middle of generation cycles, where a run cannot "
            f"resume exactly. Use a multiple of {multiple}.",
            stacklevel=4,
        )


def _cycle(args: Any) -> int:  # noqa: ANN401
    """The batches of the loader that share one generation."""
    return int(args.steps_per_generation * args.num_iterations)


def _save(state: dict[str, Any], folder: Path) -> None:
    """Whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{STATE_FILE}.part"
    torch.save(state, part)
    part.replace(folder / STATE_FILE)

"""Adapter: `transformers.Trainer` with epochs of different lengths.

Its loop takes every epoch to be as long as the first, and no public hook changes that. Everything that depends on the
private side of the loop is in this file.
"""

import inspect
import math
from pathlib import Path
from typing import Any, NamedTuple

from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import DefaultFlowCallback


class _TrainingValues(NamedTuple):
    """The numbers that `Trainer.set_initial_training_values` returns, in the order of its docstring."""

    num_train_epochs: int
    num_update_steps_per_epoch: int
    num_examples: int
    num_train_samples: int
    total_train_batch_size: int
    steps_in_epoch: int | None
    max_steps: int


_EXTENDED = {
    "_run_epoch": {"epoch", "steps_in_epoch", "num_update_steps_per_epoch"},
    "_init_training_state": {"resume_from_checkpoint"},
}
"""The private methods of Trainer that are extended here, and the arguments that are used."""


def _check_loop() -> None:
    """Refuse a version of transformers whose training loop works in another way."""
    for name, arguments in _EXTENDED.items():
        method = getattr(Trainer, name, None)
        if method is None or not arguments <= set(inspect.signature(method).parameters):
            raise ImportError(
                f"gradorder.integrations.transformers extends Trainer.{name}({', '.join(sorted(arguments))}), which "
                'the installed version does not have: pip install "gradorder[transformers]"'
            )


_check_loop()


class EpochByEpochTrainer(Trainer):
    """`Trainer` whose epochs differ in length. A subclass implements the six methods below.

    No public hook changes the number of batches of an epoch, so two private methods of `Trainer` are extended here, and
    nowhere else.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Trainer's own
        # First of the callbacks, so that all others see the right position.
        kwargs["callbacks"] = [_EpochPosition(self), *(kwargs.get("callbacks") or [])]
        super().__init__(*args, **kwargs)

    def begin_epoch(self, epoch: int) -> int:
        """Plan the epoch; the number of batches that are left of it."""
        raise NotImplementedError

    def epoch_position(self) -> float:
        """Where training is, in epochs."""
        raise NotImplementedError

    def has_open_end(self) -> bool:
        """Whether the number of epochs is known only when the run is over."""
        raise NotImplementedError

    def is_run_over(self) -> bool:
        """Whether training ends after this step, whatever the number of steps that was expected."""
        raise NotImplementedError

    def run_length(self) -> tuple[int, int]:
        """The largest number of epochs, and the number of optimizer steps."""
        raise NotImplementedError

    def resume(self, checkpoint: Path) -> int:
        """Load the position; the epoch to continue with."""
        raise NotImplementedError

    def set_initial_training_values(self, args: Any, dataloader: DataLoader[Any]) -> tuple[Any, ...]:  # noqa: ANN401
        """Trainer's own, with every epoch as long as it will be."""
        values = _TrainingValues(*super().set_initial_training_values(args, dataloader))
        num_epochs, num_steps = self.run_length()
        return tuple(values._replace(num_train_epochs=num_epochs, max_steps=num_steps))

    def _run_epoch(self, *, epoch: int, **settings: Any) -> None:  # type: ignore[override] # noqa: ANN401 - Trainer's own
        num_batches = self.begin_epoch(epoch)
        num_updates = math.ceil(num_batches / self.args.gradient_accumulation_steps)
        if self.has_open_end():  # then `is_run_over` ends it, not the number of steps
            self.state.max_steps = max(self.state.max_steps, self.state.global_step + num_updates + 1)
        settings |= {"steps_in_epoch": num_batches, "num_update_steps_per_epoch": num_updates}
        super()._run_epoch(epoch=epoch, **settings)  # type: ignore[no-untyped-call]

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:  # noqa: ANN401 - Trainer's own
        """Trainer's own, with the epoch to continue with; there are no batches to skip."""
        super()._init_training_state(*args, **kwargs)
        given = inspect.signature(super()._init_training_state).bind(*args, **kwargs).arguments
        checkpoint = given["resume_from_checkpoint"]
        return (0 if checkpoint is None else self.resume(Path(checkpoint))), 0


class _EpochPosition(TrainerCallback):
    """Corrects `state.epoch`, which Trainer counts from the first batch after a resume, and ends the run."""

    def __init__(self, trainer: EpochByEpochTrainer) -> None:
        self._trainer = trainer

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:  # noqa: ANN401
        """Before other callbacks, logs and checkpoints read it."""
        del kwargs
        state.epoch = self._trainer.epoch_position()
        if self._trainer.is_run_over():
            state.max_steps = state.global_step
            DefaultFlowCallback().on_step_end(args, state, control)  # the last step evaluates and saves

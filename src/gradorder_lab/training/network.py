"""The training loop for networks: one epoch on one screen; the rest is what it needs.

The paper's experiments, the benchmark and `gradorder compare` all train by it. A method is its strategy.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder.losses import Losses
from gradorder.scores import Score
from gradorder_lab.data.examples import Augment, Examples, LabelledBatch
from gradorder_lab.errors import LabError
from gradorder_lab.runs.recipe import Rows
from gradorder_lab.training.method import Strategy
from gradorder_lab.training.step_sizes import StepSize

CLOCK = "processor_seconds"
"""Runs have one thread each: its processor time is the wall-clock time of a machine that does nothing else."""

_AT_A_TIME = 500


@dataclass
class Cost:
    """What a run has spent so far; passes are counted in examples.

    Seconds are of training with scoring, without evaluation. Processor seconds do not count other work of the machine;
    on an accelerator they are the same as seconds, because the processor only waits there.
    """

    updates: int = 0
    trained: int = 0
    scored: int = 0
    forward: int = 0
    backward: int = 0
    seconds: float = 0.0
    score_seconds: float = 0.0
    processor_seconds: float = 0.0


@dataclass(eq=False)
class NetworkRun:
    """The moving parts of one run.

    Args:
        model: on `device`.
        optimizer: of its parameters; its step size is set before every step.
        strategy: which examples, in what order.
        step_size: of every step.
        train: what is trained on.
        measured: name -> what loss and accuracy are measured on, outside the clock.
        device: where.
        augmentation: epoch -> what is done to the inputs of a batch, or None.
        losses: of one's own, one per example; None for the cross-entropy of the model's logits, of shape (B, C) or,
            with several targets per example, (B, C, ...): the mean over them is the example's loss.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    strategy: Strategy
    step_size: StepSize
    train: Examples
    measured: Mapping[str, Examples]
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    augmentation: Callable[[int], Augment] | None = None
    losses: Losses | None = None
    cost: Cost = field(default_factory=Cost)
    notes: list[list[float]] = field(default_factory=list)
    next_epoch: int = 0

    def __post_init__(self) -> None:
        if self.losses is not None and (self.strategy.gradients or self.strategy.top is not None):
            raise ValueError("losses must be None where the strategy looks at logits, got a function")
        self.last_layer = _LastLayer(self.model) if self.strategy.gradients else None
        self.seen = _SeenLosses(len(self.train), self.device) if self.strategy.rescores_skipped else None

    def batches(self, epoch: int) -> Sequence[torch.Tensor]:
        """The examples of each batch of this epoch."""
        sampler = self.strategy.sampler
        sampler.set_epoch(epoch, scores=self.scores_before(epoch))
        if self.seen is not None:
            self.seen.clear()
        # Not torch.tensor(list(...)): for a small network that alone is 2% of the epoch.
        indices = torch.from_numpy(np.fromiter(sampler, np.int64, len(sampler)))
        found: Sequence[torch.Tensor] = indices.split(sampler.loader_batch_size)
        return found

    def scores_before(self, epoch: int) -> Callable[[], torch.Tensor] | None:
        """What computes the scores of this epoch; None where the sampler remembers them, or needs none."""
        if self.strategy.score is not None:
            return self.scores
        return self.all_losses if self.seen is not None and epoch > 0 else None

    def scores(self) -> torch.Tensor:
        """The score of every training example at the current weights."""
        return self.scored(torch.arange(len(self.train), device=self.device), cast("Score", self.strategy.score))

    def scored(self, examples: torch.Tensor, score: Score) -> torch.Tensor:
        """The score of these training examples at the current weights."""
        with self.scoring(len(examples), score):
            return torch.cat([score(self.model, self.train.batch(part)) for part in examples.split(_AT_A_TIME)])

    def all_losses(self) -> torch.Tensor:
        """The losses of the last epoch's steps, and those of the examples that it skipped at the current weights."""
        seen = cast("_SeenLosses", self.seen)
        skipped = seen.missing()
        if len(skipped) > 0:
            seen.note(skipped, self.scored(skipped, go.Loss(self.losses)))
        return seen.losses

    def selected(self, batch: LabelledBatch) -> tuple[LabelledBatch, torch.Tensor | None]:
        """What is trained on, with its weights; None for ones."""
        strategy = self.strategy
        if strategy.select is None:
            return batch, strategy.sampler.weights if strategy.weighted else None
        with self.scoring(len(batch[1]), getattr(strategy.select, "score", None)):
            if strategy.weighted:
                return strategy.select.weighted(self.model, batch)
            return strategy.select(self.model, batch), None

    def forward(self, batch: LabelledBatch) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Logits, where there are any, and losses, one mean loss for methods that need no more."""
        inputs, targets = batch
        if self.losses is not None:
            return None, _one_each(self.losses(self.model, batch), len(targets))
        logits = self.model(inputs)
        if not self.strategy.needs_losses:
            return logits, F.cross_entropy(logits, targets)
        losses = F.cross_entropy(logits, targets, reduction="none")
        return logits, losses if losses.ndim == 1 else losses.flatten(1).mean(1)

    def update(
        self, batch: LabelledBatch, weights: torch.Tensor | None, step_size: float
    ) -> tuple[torch.Tensor | None, torch.Tensor]:
        """One step; logits and losses before it."""
        targets = batch[1]
        for group in self.optimizer.param_groups:
            group["lr"] = step_size
        self.optimizer.zero_grad(set_to_none=True)
        try:
            logits, losses = self.forward(batch)
        except ValueError as error:
            if len(targets) > 1:
                raise
            raise LabError(f"the network cannot be trained on a batch of one example: {error}") from error
        self.objective(logits, losses, targets, weights).backward()
        self.optimizer.step()
        num_examples = len(targets)
        self.cost.updates += 1
        self.cost.trained += num_examples
        self.cost.forward += num_examples
        self.cost.backward += num_examples
        return None if logits is None else logits.detach(), losses.detach()

    def objective(
        self, logits: torch.Tensor | None, losses: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor | None
    ) -> torch.Tensor:
        """What is minimised in this step."""
        if self.strategy.top is not None and logits is not None:
            return self.strategy.top.mean(losses, correct=logits.argmax(1) == targets)
        return losses.mean() if weights is None else (weights.to(losses) * losses).mean()

    def rate(self, epoch: int, part: float) -> float:
        """The learning rate of the next step, after this part of the epoch."""
        factor = self.strategy.rate_factor
        return self.step_size(self.cost.updates, epoch, part) * (1.0 if factor is None else factor(epoch))

    def observe(self, examples: torch.Tensor, losses: torch.Tensor) -> None:
        """Note the losses of a step, where those of skipped examples join them before the next epoch."""
        if self.seen is not None:
            self.seen.note(examples, losses)

    def learnt(self, logits: torch.Tensor | None, batch: LabelledBatch) -> dict[str, torch.Tensor]:
        """What an ordering that learns from gradients is given."""
        if self.last_layer is None or logits is None:
            return {}
        return {"gradients": self.last_layer.gradients(logits, batch[1])}

    @contextmanager
    def scoring(self, num_examples: int, score: object) -> Iterator[None]:
        """Count what scoring these examples costs; only the exact norm has a backward pass."""
        started = self.clock()
        yield
        self.cost.score_seconds += self.clock() - started
        self.cost.scored += num_examples
        self.cost.forward += num_examples
        self.cost.backward += num_examples if isinstance(score, go.GradientNorm) else 0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time, also where an error ends it."""
        started, processor = self.clock(), time.process_time()
        try:
            yield
        finally:
            seconds = self.clock() - started
            self.cost.seconds += seconds
            self.cost.processor_seconds += time.process_time() - processor if self.device.type == "cpu" else seconds

    def clock(self) -> float:
        """Seconds, once the device has done what it was asked for."""
        if self.device.type in ("cuda", "mps"):
            torch.accelerator.synchronize(self.device)
        return time.perf_counter()

    def note(self) -> None:
        """Where the run stands."""
        measures = [
            number for examples in self.measured.values() for number in evaluate(self.model, examples, self.losses)
        ]
        self.notes.append([self.next_epoch, *measures, *(getattr(self.cost, one.name) for one in fields(Cost))])

    def rows(self) -> Rows:
        """What was noted, as columns."""
        measures = [f"{name}_{measure}" for name in self.measured for measure in ("loss", "accuracy")]
        columns = np.array(self.notes, dtype=np.float64).T.copy()
        return dict(zip(("epoch", *measures, *(one.name for one in fields(Cost))), columns, strict=True))

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on, where the strategy remembers nothing."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "cost": vars(self.cost).copy(),
            "notes": [list(note) for note in self.notes],
            "next_epoch": self.next_epoch,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.cost = Cost(**state["cost"])
        self.notes = [list(note) for note in state["notes"]]
        self.next_epoch = state["next_epoch"]


def train_one_epoch(run: NetworkRun, epoch: int, part: float = 1.0) -> None:
    """One epoch, the same loop for every method; with `part` below 1 only its first steps."""
    strategy, sampler = run.strategy, run.strategy.sampler
    augment = None if run.augmentation is None else run.augmentation(epoch)
    run.model.train()
    with run.timed():
        batches = run.batches(epoch)
        for number, indices in enumerate(batches[: whole_steps(part, len(batches))]):
            batch, weights = run.selected(run.train.batch(indices, augment))
            logits, losses = run.update(batch, weights, run.rate(epoch, number / len(batches)))
            run.observe(indices, losses)
            sampler.step(losses if strategy.remembers else None, **run.learnt(logits, batch))
        if strategy.top is not None:
            strategy.top.observe()
    run.next_epoch = epoch + 1


def train(run: NetworkRun, length: float) -> None:
    """Train up to this epoch, whole or not: the last one is cut to whole steps. Some samplers decide the length.

    A method that looks at losses ends when they are no longer finite, and is judged by what it has then; one that
    does not look goes on for nothing.
    """
    with contextlib.suppress(go.NonFiniteScoresError):
        if run.strategy.runs_by_progress:
            for epoch in run.strategy.sampler.run():
                train_one_epoch(run, epoch)
        else:
            for epoch in range(run.next_epoch, math.ceil(length)):
                train_one_epoch(run, epoch, min(1.0, length - epoch))


@torch.no_grad()
def evaluate(model: nn.Module, data: Examples, losses: Losses | None = None) -> tuple[float, float]:
    """Mean loss, and accuracy in percent.

    Where an example has several targets, as a text has characters, both are means over all of them. Losses of one's own
    say nothing of right and wrong: there is no accuracy.
    """
    was_training = model.training
    model.eval()
    loss = num_right = 0.0
    for indices in torch.arange(len(data), device=data.labels.device).split(_AT_A_TIME):
        batch = data.batch(indices)
        if losses is None:
            logits = model(batch[0])
            loss += F.cross_entropy(logits, batch[1], reduction="sum").double().item()
            num_right += (logits.argmax(1) == batch[1]).sum().item()
        else:
            loss += losses(model, batch).double().sum().item()
    model.train(was_training)
    if losses is not None:
        return loss / len(data), math.nan
    num_targets = data.labels.numel()
    return loss / num_targets, 100 * num_right / num_targets


def _one_each(losses: torch.Tensor, num_examples: int) -> torch.Tensor:
    """The user's losses, if there is one for each example."""
    if tuple(losses.shape) != (num_examples,):
        raise LabError(
            f"losses must give one number per example, shape ({num_examples},) here, got shape {tuple(losses.shape)}"
        )
    return losses


def whole_steps(part: float, num_steps: int) -> int:
    """The steps of a part of an epoch: the nearest whole number, at least one."""
    return max(1, round(part * num_steps))


class _SeenLosses:
    """The losses of one epoch, and which examples have one."""

    def __init__(self, num_examples: int, device: torch.device) -> None:
        self.losses = torch.zeros(num_examples, device=device)
        self._is_seen = torch.zeros(num_examples, dtype=torch.bool, device=device)

    def clear(self) -> None:
        """Begin an epoch: no example has a loss."""
        self._is_seen.fill_(value=False)

    def note(self, examples: torch.Tensor, losses: torch.Tensor) -> None:
        """Note the losses of these examples."""
        examples = examples.to(self.losses.device)
        self.losses[examples] = losses.to(self.losses)
        self._is_seen[examples] = True

    def missing(self) -> torch.Tensor:
        """The examples without a loss."""
        return (~self._is_seen).nonzero().flatten()


class _LastLayer:
    """The gradients of the last linear layer, example by example, from the training step's own numbers."""

    def __init__(self, model: nn.Module) -> None:
        last = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
        last.register_forward_hook(self._keep)

    def _keep(self, _module: nn.Module, inputs: tuple[torch.Tensor, ...], _outputs: torch.Tensor) -> None:
        self._inputs = inputs[0].detach()

    def gradients(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """(softmax(z) - onehot(y)) h^T, flat, shape (B, C H)."""
        errors = logits.softmax(1)
        errors[torch.arange(len(targets)), targets] -= 1
        return torch.einsum("bc,bh->bch", errors, self._inputs).flatten(1)

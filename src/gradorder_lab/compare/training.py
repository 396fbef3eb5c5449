"""One training run of one method: the loop that a user would write."""

import contextlib
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from gradorder import GradientNorm, NonFiniteScoresError
from gradorder_lab.compare.methods import Strategy
from gradorder_lab.datasets.examples import Batch, Examples

_SCORED_AT_ONCE = 500


@dataclass
class Cost:
    """What a run has spent; passes are counted in examples."""

    steps: int = 0
    trained: int = 0
    forward: int = 0
    backward: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0


@dataclass(eq=False)
class Run:
    """Network, optimizer and strategy of one run; the step size follows half a cosine over its steps.

    Over its epochs, one like the other, where the ordering decides only during the run what to leave out.
    """

    model: nn.Module
    train: Examples
    strategy: Strategy
    epochs: int
    step_size: float
    momentum: float
    weight_decay: float

    def __post_init__(self) -> None:
        self.cost = Cost()
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=self.step_size, momentum=self.momentum, weight_decay=self.weight_decay
        )
        self.last_layer = _LastLayer(self.model) if self.strategy.gradients else None
        self.lengths = self.epoch_lengths()

    def to_the_end(self) -> Cost:
        """Train all epochs; planning, scoring and selecting are on the clock.

        Where the step size is too large for it, a method that looks at losses ends when they are not finite any more,
        and is judged by what it has then; one that does not look goes on for nothing.
        """
        self.model.train()
        started, processor = time.perf_counter(), time.process_time()
        with contextlib.suppress(NonFiniteScoresError):
            for epoch in range(self.epochs):
                self.train_one_epoch(epoch)
        self.cost.seconds = time.perf_counter() - started
        self.cost.processor_seconds = time.process_time() - processor
        return self.cost

    def train_one_epoch(self, epoch: int) -> None:
        """Every method is this loop."""
        strategy, sampler = self.strategy, self.strategy.sampler
        sampler.set_epoch(epoch, scores=None if strategy.score is None else self.all_scores)
        num_batches = sampler.steps_left
        order = torch.from_numpy(np.fromiter(sampler, np.int64, len(sampler)))  # at once, as the laboratory's own loop
        for number, indices in enumerate(order.split(sampler.loader_batch_size)):
            batch, weights = self.selected(self.train.batch(indices))
            self.set_step_size(self.progress(epoch, number / num_batches))
            logits, losses = self.update(batch, weights)
            sampler.step(losses if strategy.remembers else None, **self.learnt(logits, batch))
        if strategy.top is not None:
            strategy.top.observe()

    def selected(self, batch: Batch) -> tuple[Batch, torch.Tensor | None]:
        """What is trained on, with its weights; None for ones."""
        strategy = self.strategy
        if strategy.select is None:
            return batch, strategy.sampler.weights if strategy.weighted else None
        kept, weights = strategy.select.weighted(self.model, batch)
        self.count_scored(len(batch[1]), getattr(strategy.select, "score", None))
        return kept, weights

    def update(self, batch: Batch, weights: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """One step; logits and losses before it, one mean loss for methods that need no more."""
        inputs, targets = batch
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(inputs)
        losses = F.cross_entropy(logits, targets, reduction="none" if self.strategy.needs_losses else "mean")
        self.objective(logits, losses, targets, weights).backward()
        self.optimizer.step()
        num_examples = len(targets)
        self.cost.steps += 1
        self.cost.trained += num_examples
        self.cost.forward += num_examples
        self.cost.backward += num_examples
        return logits.detach(), losses.detach()

    def objective(
        self, logits: torch.Tensor, losses: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor | None
    ) -> torch.Tensor:
        """What is minimised in this step."""
        if self.strategy.top is not None:
            return self.strategy.top.mean(losses, correct=logits.argmax(1) == targets)
        return losses.mean() if weights is None else (weights.to(losses) * losses).mean()

    def all_scores(self) -> torch.Tensor:
        """The score of every training example at the current weights."""
        if self.strategy.score is None:
            raise RuntimeError("this strategy has no score")
        self.count_scored(len(self.train), self.strategy.score)
        parts = torch.arange(len(self.train)).split(_SCORED_AT_ONCE)
        return torch.cat([self.strategy.score(self.model, self.train.batch(part)) for part in parts])

    def count_scored(self, num_examples: int, score: object) -> None:
        """The passes of scoring; only the exact norm has a backward one."""
        self.cost.forward += num_examples
        self.cost.backward += num_examples if isinstance(score, GradientNorm) else 0

    def learnt(self, logits: torch.Tensor, batch: Batch) -> dict[str, torch.Tensor]:
        """What an ordering that learns from gradients is given."""
        return {} if self.last_layer is None else {"gradients": self.last_layer.gradients(logits, batch[1])}

    def epoch_lengths(self) -> list[float]:
        """The steps of every epoch, over their mean."""
        sampler = self.strategy.sampler
        try:
            steps = [sampler.num_steps(epoch, epoch + 1) for epoch in range(self.epochs)]
        except ValueError:  # nobody knows yet
            return [1.0] * self.epochs
        return [num_steps * self.epochs / sum(steps) for num_steps in steps]

    def progress(self, epoch: int, part: float) -> float:
        """How much of the run is behind, with this part of an epoch."""
        return (sum(self.lengths[:epoch]) + part * self.lengths[epoch]) / self.epochs

    def set_step_size(self, progress: float) -> None:
        """Half a cosine, from the first step size down to 0."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.step_size * (1 + math.cos(math.pi * progress)) / 2


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

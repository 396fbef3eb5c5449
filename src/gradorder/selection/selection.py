"""What every selection is: a rule from a model and a batch to the examples to train on, and their weights."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, final

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch, num_examples, take
from gradorder.norms.model_state import unwrapped
from gradorder.scores import Score


class Selection(ABC):
    """A rule that chooses inside a batch. Every subclass is final.

    `select(model, batch)` returns the chosen examples in the structure of the batch: tensors, tuples, lists, dicts and
    any nesting of them. `select.weighted(model, batch)` returns them with one weight for each, on the device of the
    scores; the loss to train on is always `(weights * losses).mean()`.

    With several processes (torch.distributed) each chooses within its own slice of the batch.

    To write one of your own, subclass this and implement `_choose`.
    """

    reweights: ClassVar[bool] = False
    """Whether the weights may differ from one; `select(model, batch)` would lose them and is refused then."""

    @abstractmethod
    def _choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The indices of the chosen examples, and their weights; None are all ones."""

    @final
    def __call__(self, model: nn.Module, batch: Batch) -> Batch:
        """The chosen examples."""
        if self.reweights:
            name = type(self).__name__
            raise TypeError(f"{name} is biased without its weights: call select.weighted(model, batch)")
        return take(batch, self._choice(model, batch)[0])

    @final
    def weighted(self, model: nn.Module, batch: Batch) -> tuple[Batch, torch.Tensor]:
        """The chosen examples and one weight for each: train on `(weights * losses).mean()`."""
        indices, weights = self._choice(model, batch)
        return take(batch, indices), torch.ones(len(indices), device=indices.device) if weights is None else weights

    @classmethod
    def typical(cls, **settings: Any) -> tuple[Self, ...]:  # noqa: ANN401 - the class's own
        """Instances on which the contract of this library is tested, with these settings beside their own."""
        return (cls(**settings),)

    def _choice(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | None]:
        if num_examples(batch) == 0:
            raise ValueError("batch must hold at least one example, got none")
        return self._choose(model, batch)


def batch_scores(score: Score, model: nn.Module, batch: Batch) -> torch.Tensor:
    """One finite score per example of the batch, shape (B,), without grad."""
    return checks.finite_scores(raw_scores(score, model, batch))


def raw_scores(score: Score, model: nn.Module, batch: Batch) -> torch.Tensor:
    """The same, finite or not: asking would wait for the device, and a caller may have to wait anyway later."""
    return checks.per_example("score", score(unwrapped(model), batch), num_examples(batch)).detach()


def check_score(score: object) -> None:
    """Refuse what is not a score."""
    if not callable(score):
        raise TypeError(f"score must be a score such as GradientNorm(), got {score!r}")


def own_values(name: str, values: object) -> torch.Tensor:
    """The user's own losses or scores of a batch: a tensor of shape (B,), B at least one."""
    size = len(values) if isinstance(values, torch.Tensor) and values.ndim else 1
    checked = checks.per_example(name, values, size)
    if size == 0:
        raise ValueError(f"{name} must give one number for at least one example, got none")
    return checked

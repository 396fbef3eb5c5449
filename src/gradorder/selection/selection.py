"""The base class of all selections, with the score checks, random numbers and state checks that selections share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch, num_examples, take
from gradorder.norms.model_state import unwrapped
from gradorder.ranks import own_rank
from gradorder.scores import Score


class Selection(ABC):
    """Chooses the examples of a batch to train on, and their weights.

    `select(model, batch)` returns the chosen examples in the structure of the batch: tensors, tuples, lists, dicts and
    any nesting of them. `select.weighted(model, batch)` also returns one weight per chosen example, on the device of
    the scores. The training loss is always `(weights * losses).mean()`.

    With several processes (torch.distributed), each process chooses within its own slice of the batch.

    Your own selection subclasses this and implements `choose`::

        class Hardest(go.Selection):
            def choose(self, model, batch):
                losses = go.Loss()(model, batch)
                return losses.argmax(0, keepdim=True), None
    """

    reweights: ClassVar[bool] = False
    """Whether the weights may differ from one. Then `select(model, batch)`, which returns no weights, raises."""

    @abstractmethod
    def choose(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the indices of the chosen examples and their weights. None means that all weights are one.

        Args:
            model: the model to score with.
            batch: at least one example.
        """

    @final
    def __call__(self, model: nn.Module, batch: Batch) -> Batch:
        """Return the chosen examples."""
        if self.reweights:
            name = type(self).__name__
            raise TypeError(f"{name} is biased without its weights: call select.weighted(model, batch)")
        return take(batch, self._choice(model, batch)[0])

    @final
    def weighted(self, model: nn.Module, batch: Batch) -> tuple[Batch, torch.Tensor]:
        """Return the chosen examples and one weight for each: train on `(weights * losses).mean()`."""
        indices, weights = self._choice(model, batch)
        return take(batch, indices), torch.ones(len(indices), device=indices.device) if weights is None else weights

    def _choice(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | None]:
        if num_examples(batch) == 0:
            raise ValueError("batch must hold at least one example, got none")
        return self.choose(model, batch)


def batch_scores(score: Score, model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return one finite score per example of the batch, shape (B,), without grad."""
    return checks.finite_scores(raw_scores(score, model, batch))


def raw_scores(score: Score, model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the scores without checking that they are finite: on an accelerator, the check would wait for them."""
    return checks.per_example("score", score(unwrapped(model), batch), num_examples(batch)).detach()


def check_score(score: object) -> None:
    """Raise if this is not a score."""
    if not callable(score):
        raise TypeError(f"score must be a score such as GradientNorm(), got {score!r}")


def own_values(name: str, values: object) -> torch.Tensor:
    """Return the user's own losses or scores of a batch after checking them: a tensor of shape (B,), B >= 1."""
    size = len(values) if isinstance(values, torch.Tensor) and values.ndim else 1
    checked = checks.per_example(name, values, size)
    if size == 0:
        raise ValueError(f"{name} must give one number for at least one example, got none")
    return checked


@final
class RandomNumbers:
    """Uniform random numbers of a selection: different on every process, and resumable by one number.

    Call number t of process r uses a generator seeded by (seed, r, t). So `num_calls` is the whole state, and a state
    saved by one process can be loaded by any other, for any number of processes.
    """

    def __init__(self, seed: int) -> None:
        self._seed = checks.integer("seed", seed, minimum=0)
        self.num_calls = 0

    def uniform(self, size: int, device: torch.device) -> torch.Tensor:
        """Return `size` numbers in [0, 1) as float64, drawn on the CPU so that every device gets the same ones."""
        sequence = np.random.SeedSequence(self._seed, spawn_key=(own_rank(), self.num_calls))
        generator = torch.Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0]))
        self.num_calls += 1
        return torch.rand(size, dtype=torch.float64, generator=generator).to(device, non_blocking=True)


def state_count(state: Mapping[str, Any], name: str) -> int:
    """Return an entry of a state, an integer >= 0."""
    return checks.integer(f"{name} of state", _state_entry(state, name), minimum=0)


def state_number(state: Mapping[str, Any], name: str) -> float:
    """Return an entry of a state, a finite number >= 0."""
    value = _state_entry(state, name)
    if not checks.is_number(value) or not 0 <= value < float("inf"):
        raise ValueError(f"{name} of state must be a finite number >= 0, got {value!r}")
    return float(value)


def state_vector(state: Mapping[str, Any], name: str, *, max_length: int) -> torch.Tensor:
    """Return a copy of an entry of a state, a tensor of at most `max_length` finite numbers."""
    values = _state_entry(state, name)
    if not isinstance(values, torch.Tensor) or values.ndim != 1 or len(values) > max_length:
        raise ValueError(f"{name} of state must be a tensor of at most {max_length} numbers, got {values!r}")
    if not bool(torch.isfinite(values).all()):
        raise ValueError(f"{name} of state must be finite, got {values!r}")
    return values.detach().clone()


def _state_entry(state: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - a number or a tensor
    if name not in state:
        raise ValueError(f"state must be the result of state_dict(), but it has no {name!r}")
    return state[name]

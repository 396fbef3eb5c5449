"""The place of a sampler in a run, as plain tensors and numbers."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self

import torch

VERSION = 2
PARTS = ("learned", "history")
"""What has entries of its own: each is saved by itself, under the name of its part and its own."""

TENSORS = ("sequence", "planned_steps", "source_scores", "remembered_scores", "weights")
"""What is a tensor, where it is there."""


@dataclass(frozen=True, eq=False)
class SamplerState:
    """What `OrderedSampler.state_dict` saves.

    The sequence of the current epoch is saved as it was planned, so that a resumed run sees the same batches
    whatever else has changed since. Scores and weights that do not exist are left out.
    """

    num_examples: int
    batch_size: int
    seed: int
    epoch: int
    consumed: int
    """Global batches of the epoch that training has used."""
    is_stepped: bool
    """Whether `consumed` was counted by `step`."""
    sequence: torch.Tensor
    source_epoch: int
    """The epoch whose scores made the sequence."""
    planned_steps: torch.Tensor
    """The steps of every epoch planned so far, as rows (epoch, steps)."""
    source_scores: torch.Tensor | None = None
    """Those scores, where a later epoch will replay it; NaN where there is none."""
    remembered_scores: torch.Tensor | None = None
    """The last score of each example, NaN where there is none."""
    weights: torch.Tensor | None = None
    """The weight of each example of the sequence, where they are not all 1."""
    learned: Mapping[str, Any] = field(default_factory=dict)
    """What the ordering has learned, where it does."""
    history: Mapping[str, Any] = field(default_factory=dict)
    """What training has seen of every example, where that is recorded."""

    def to_dict(self) -> dict[str, Any]:
        """Copies of the tensors, so that a state does not change as the run goes on."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in PARTS}
        values |= {f"{part}_{name}": value for part in PARTS for name, value in getattr(self, part).items()}
        copied = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in values.items() if v is not None}
        return {"version": VERSION, **copied}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], *, num_examples: int, batch_size: int, seed: int) -> Self:
        """The state, if it is one and was made for a sampler with these settings."""
        own = {"version": VERSION, "num_examples": num_examples, "batch_size": batch_size, "seed": seed}
        names = [each.name for each in fields(cls) if each.name not in PARTS]
        required = [name for name in names if cls.__dataclass_fields__[name].default is MISSING]
        for name in ["version", *required]:
            if name not in state:
                raise ValueError(f"state must be what state_dict() returned, but it has no {name!r}")
            if name in own and state[name] != own[name]:
                raise ValueError(f"state was made with {name}={state[name]}, but this sampler has {own[name]}")
        parts: dict[str, Any] = {
            part: {k.removeprefix(f"{part}_"): _on_cpu(v) for k, v in state.items() if k.startswith(f"{part}_")}
            for part in PARTS
        }
        loaded = cls(**{name: _on_cpu(state[name]) for name in names if name in state}, **parts)
        loaded._check_kinds()
        loaded._check()
        return loaded

    def _check_kinds(self) -> None:
        numbers = {f"{part}_{name}": value for part in PARTS for name, value in getattr(self, part).items()}
        tensors = {name: getattr(self, name) for name in TENSORS if getattr(self, name) is not None}
        for values, kind in ((tensors, torch.Tensor), (numbers, torch.Tensor | int | float)):
            for name, value in values.items():
                if not isinstance(value, kind):
                    raise ValueError(  # noqa: TRY004 - as the others
                        f"state must hold {name} as torch.save and torch.load leave it, a tensor or a number, got a "
                        f"{type(value).__name__}: was it written as JSON?"
                    )

    def _check(self) -> None:
        lowest, highest = (int(self.sequence.min()), int(self.sequence.max())) if len(self.sequence) else (0, 0)
        if self.sequence.dtype != torch.int64 or lowest < 0 or highest >= self.num_examples:
            raise ValueError(
                f"state must name examples 0 to {self.num_examples - 1} in its sequence, "
                f"got {lowest} to {highest} of {self.sequence.dtype}"
            )
        if self.planned_steps.ndim != 2 or self.planned_steps.shape[1] != 2:  # noqa: PLR2004 - rows of two
            raise ValueError(f"state must hold planned_steps in rows of two, got {tuple(self.planned_steps.shape)}")
        num_batches = -(-len(self.sequence) // self.batch_size)
        if not 0 <= self.consumed <= num_batches:
            raise ValueError(f"state must have consumed 0 to {num_batches} batches, got {self.consumed}")
        for name in ("source_scores", "remembered_scores"):
            scores = getattr(self, name)
            if scores is not None and scores.shape != (self.num_examples,):
                raise ValueError(
                    f"state must hold {name} of {self.num_examples} numbers, got shape {tuple(scores.shape)}"
                )
        if self.weights is not None and self.weights.shape != self.sequence.shape:
            raise ValueError(
                f"state must hold weights of {len(self.sequence)} numbers, got shape {tuple(self.weights.shape)}"
            )


def _on_cpu(value: Any) -> Any:  # noqa: ANN401 - a tensor or a number
    return value.to("cpu", copy=True) if isinstance(value, torch.Tensor) else value

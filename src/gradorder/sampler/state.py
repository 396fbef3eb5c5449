"""The state of a sampler as plain tensors and numbers, every field validated when it is loaded."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self

import torch

from gradorder import checks
from gradorder.orderings.ordering import has_duplicates

VERSION = 4
PARTS = ("carried", "history")
"""Fields with entries of their own. Each entry is saved by itself, under the name of its part and its own."""


@dataclass(frozen=True, eq=False)
class SamplerState:
    """The content of `OrderedSampler.state_dict`.

    The sequence of the current epoch is saved as it was planned, so a resumed run sees the same batches whatever else
    has changed since. `compact.py` shortens it for large datasets.
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
    planned_epochs: torch.Tensor
    """Every epoch planned so far, as rows (epoch, steps, examples)."""
    is_run: bool
    """Whether the run ends when its progress is 1, rather than after a number of epochs."""
    worth: float
    """The epochs before the current one, each counted as the ordering says."""
    gradients: float
    """The examples that these epochs visited, in units of the dataset."""
    repeats: bool = False
    """Whether an example may occur in the sequence more than once."""
    remembered_scores: torch.Tensor | None = None
    """The last score of each example, NaN if it has none."""
    weights: torch.Tensor | None = None
    """The weight of each example of the sequence, if they are not all 1."""
    carried: Mapping[str, Any] = field(default_factory=dict)
    """What the ordering carries from epoch to epoch."""
    history: Mapping[str, Any] = field(default_factory=dict)
    """The recorded history."""

    def to_dict(self) -> dict[str, Any]:
        """Copy the tensors, so that a state does not change as the run goes on."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in PARTS}
        values |= {f"{part}_{name}": value for part in PARTS for name, value in getattr(self, part).items()}
        small = {"sequence": self.sequence.int()} if self.num_examples <= torch.iinfo(torch.int32).max else {}
        values = {name: value for name, value in values.items() if value is not None and name not in small}
        copied = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in values.items()}
        return {"version": VERSION, **copied, **small}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], *, num_examples: int, batch_size: int, seed: int) -> Self:
        """Read a state that was made by a sampler with these settings."""
        own = {"version": VERSION, "num_examples": num_examples, "batch_size": batch_size, "seed": seed}
        names = [each.name for each in fields(cls) if each.name not in PARTS]
        required = [name for name in names if cls.__dataclass_fields__[name].default is MISSING]
        for name in ["version", *required]:
            if name not in state:
                raise ValueError(f"state must be the result of state_dict(), but it has no {name!r}")
            if name in own and state[name] != own[name]:
                raise ValueError(f"state was made with {name}={state[name]}, but this sampler has {own[name]}")
        parts: dict[str, Any] = {
            part: {k.removeprefix(f"{part}_"): _on_cpu(v) for k, v in state.items() if k.startswith(f"{part}_")}
            for part in PARTS
        }
        values = {name: _on_cpu(state[name]) for name in names if name in state}
        if getattr(values["sequence"], "dtype", None) == torch.int32:
            values["sequence"] = values["sequence"].long()
        loaded = cls(**values, **parts)
        loaded._check()
        return loaded

    def _check(self) -> None:
        self._check_kinds()
        checks.integer("epoch of the state", self.epoch, minimum=0)
        checks.integer("consumed of the state", self.consumed, minimum=0)
        for name in ("is_stepped", "repeats", "is_run"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"state must hold {name} as True or False, got {getattr(self, name)!r}")  # noqa: TRY004
        self._check_sequence()
        num_batches = -(-len(self.sequence) // self.batch_size)
        if self.consumed > num_batches:
            raise ValueError(f"state must have consumed 0 to {num_batches} batches, got {self.consumed}")
        rows = self.planned_epochs
        if rows.dtype != torch.int64 or rows.ndim != 2 or rows.shape[1] != 3 or (rows < 0).any():  # noqa: PLR2004
            raise ValueError(f"state must hold planned_epochs in rows (epoch, steps, examples), got {rows}")
        for name in ("worth", "gradients"):
            value = getattr(self, name)
            if not checks.is_number(value) or not 0 <= value < math.inf:
                raise ValueError(f"state must hold {name} as a finite number >= 0, got {value!r}")
        if self.remembered_scores is not None:
            self._check_numbers("remembered_scores", self.num_examples, may_be_nan=True)
        if self.weights is not None:
            self._check_numbers("weights", len(self.sequence))
            if (self.weights < 0).any():
                raise ValueError("state must hold weights that are not negative")

    def _check_kinds(self) -> None:
        tensors = {name: getattr(self, name) for name in ("sequence", "planned_epochs", "remembered_scores", "weights")}
        entries = {f"{part}_{name}": value for part in PARTS for name, value in getattr(self, part).items()}
        for values, kind in ((tensors, torch.Tensor | None), (entries, torch.Tensor | int | float)):
            for name, value in values.items():
                if not isinstance(value, kind):
                    raise ValueError(  # noqa: TRY004 - one kind of error for a bad state
                        f"state must hold {name} as torch.save and torch.load leave it, a tensor or a number, got a "
                        f"{type(value).__name__}: was it written as JSON?"
                    )

    def _check_sequence(self) -> None:
        sequence, size = self.sequence, self.num_examples
        if sequence.dtype != torch.int64 or sequence.ndim != 1 or len(sequence) == 0:
            raise ValueError(
                f"state must hold a sequence of examples, got shape {tuple(sequence.shape)} of {sequence.dtype}"
            )
        lowest, highest = int(sequence.min()), int(sequence.max())
        if lowest < 0 or highest >= size:
            raise ValueError(f"state must hold a sequence of examples 0 to {size - 1}, got {lowest} to {highest}")
        if not self.repeats and has_duplicates(sequence.numpy(), size):
            raise ValueError("state must hold a sequence in which every example occurs at most once")

    def _check_numbers(self, name: str, length: int, *, may_be_nan: bool = False) -> None:
        values = getattr(self, name)
        if values.shape != (length,) or not values.is_floating_point():
            raise ValueError(
                f"state must hold {name} of {length} numbers, got shape {tuple(values.shape)} of {values.dtype}"
            )
        bad = values.isinf() if may_be_nan else ~values.isfinite()
        if bad.any():
            raise ValueError(f"state must hold finite {name}, but {int(bad.sum())} of {length} are not")


def _on_cpu(value: Any) -> Any:  # noqa: ANN401 - a tensor or a number
    return value.to("cpu", copy=True) if isinstance(value, torch.Tensor) else value

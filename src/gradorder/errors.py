"""The errors this library raises about what it was given.

A wrong argument is a plain `ValueError` that names the argument, the rule and the value. The classes here
are for the mistakes that a program may want to tell apart. All of them are `ValueError` too, so that one
`except ValueError` catches every complaint of the library.
"""

import sys
import warnings
from typing import Any, Self

import torch

_SHOWN = 5
_NOT_THE_USERS = ("gradorder.", "torch.utils.data.")


def warn(message: str) -> None:
    """Warn at the line of the user's code that called the library, also through a `DataLoader`."""
    depth = 2
    while sys._getframe(depth - 1).f_globals.get("__name__", "").startswith(_NOT_THE_USERS):  # noqa: SLF001 - as warnings does
        depth += 1
    warnings.warn(message, stacklevel=depth)


class NonFiniteScoresError(ValueError):
    """Scores hold NaN or infinity, so no order follows from them.

    Attributes:
        num_bad: how many scores are not finite.
        first_indices: the example indices of the first few.
    """

    def __init__(self, message: str, num_bad: int, first_indices: tuple[int, ...]) -> None:
        super().__init__(message)
        self.num_bad = num_bad
        self.first_indices = first_indices

    def __reduce__(self) -> tuple[Any, ...]:
        """So that it can be raised in one process and caught in another."""
        return type(self), (*self.args, self.num_bad, self.first_indices)

    @classmethod
    def of(cls, scores: torch.Tensor, indices: torch.Tensor | None = None) -> Self:
        """The error for these scores; `indices` names the examples where they are not 0..N-1."""
        bad = (~torch.isfinite(scores)).nonzero().flatten().cpu()
        first = bad[:_SHOWN] if indices is None else indices[bad[:_SHOWN]]
        shown = ", ".join(str(i) for i in first.tolist())
        dots = ", ..." if len(bad) > _SHOWN else ""
        message = (
            f"scores must be finite, but {len(bad)} of {scores.numel()} are NaN or infinite "
            f"(examples {shown}{dots}): has the training diverged?"
        )
        return cls(message, len(bad), tuple(first.tolist()))


class IterableDatasetError(TypeError, ValueError):
    """An order needs examples that can be asked for by index, and an iterable-style dataset has none."""


class StepError(RuntimeError, ValueError):
    """`step` was called for a batch that was never issued."""


class UnknownStepsError(ValueError):
    """The steps of an epoch were asked for, and its ordering decides only when it is planned what to leave out."""


class RankError(RuntimeError, ValueError):
    """The processes of a run do not agree, or one of them failed: raised on all of them, so that none waits."""


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether memory has run out, on whatever device: then no other way is tried, as none is known to need less."""
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)

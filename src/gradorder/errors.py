"""The errors and warnings of this library.

An invalid argument raises a plain `ValueError` that names the argument, the rule and the value. The classes here are
for errors that a program may want to distinguish. All of them are subclasses of `ValueError`, so `except ValueError`
catches them all.
"""

import sys
import warnings
from typing import Any, Self

import torch

_SHOWN = 5
_LIBRARY_MODULES = ("gradorder.", "torch.utils.data.")


def warn(message: str) -> None:
    """Warn at the line of user code that called the library, also if a `DataLoader` lies in between."""
    depth = 2
    while sys._getframe(depth - 1).f_globals.get("__name__", "").startswith(_LIBRARY_MODULES):  # noqa: SLF001 - as warnings does
        depth += 1
    warnings.warn(message, stacklevel=depth)


class NonFiniteScoresError(ValueError):
    """Some scores are NaN or infinite, so they cannot be ordered.

    Attributes:
        num_bad: the number of scores that are NaN or infinite.
        first_indices: the indices of the first of these examples.
    """

    def __init__(self, message: str, num_bad: int, first_indices: tuple[int, ...]) -> None:
        super().__init__(message)
        self.num_bad = num_bad
        self.first_indices = first_indices

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the error picklable, so that it can pass from one process to another."""
        return type(self), (*self.args, self.num_bad, self.first_indices)

    @classmethod
    def of(cls, scores: torch.Tensor, indices: torch.Tensor | None = None) -> Self:
        """Return the error for these scores; `indices` are their examples if these are not 0..N-1."""
        bad = (~torch.isfinite(scores)).nonzero().flatten().cpu()
        first = bad[:_SHOWN] if indices is None else indices[bad[:_SHOWN]]
        shown = ", ".join(str(i) for i in first.tolist())
        dots = ", ..." if len(bad) > _SHOWN else ""
        message = (
            f"scores must be finite, but {len(bad)} of {scores.numel()} are NaN or infinite "
            f"(examples {shown}{dots}). Has the training diverged?"
        )
        return cls(message, len(bad), tuple(first.tolist()))


class IterableDatasetError(TypeError, ValueError):
    """The dataset is iterable-style, but an order needs examples that can be indexed."""


class StepError(RuntimeError, ValueError):
    """`step` was called for a batch that was never issued."""


class UnknownStepsError(ValueError):
    """The number of steps of an epoch is not known yet, because its ordering skips examples when it is planned."""


class RankError(RuntimeError, ValueError):
    """The processes of a run disagree, or one of them failed. Raised on all processes, so that none hangs."""


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a device ran out of memory. Callers re-raise: every fallback needs at least as much memory."""
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)

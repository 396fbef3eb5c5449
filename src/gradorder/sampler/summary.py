"""A summary of a run: how many examples each epoch visited and skipped, and the time spent in the sampler."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Summary:
    """The epochs that a sampler has planned so far; `print(summary)` shows a table.

    Args:
        num_examples: the number of examples of a complete epoch.
        visited: epoch -> the number of examples that it visits.
        seconds: the time spent in `set_epoch` and `step` since the sampler was built, without that of a score function.
    """

    num_examples: int
    visited: dict[int, int]
    seconds: float

    @property
    def kept(self) -> float:
        """The visited examples of all planned epochs, as a fraction of as many complete epochs."""
        return sum(self.visited.values()) / (self.num_examples * len(self.visited))

    @property
    def skipped(self) -> float:
        """The skipped examples, as a fraction."""
        return 1 - self.kept

    def line(self, epoch: int) -> str:
        """Return one line about an epoch."""
        num = self.visited[epoch]
        return f"epoch {epoch}: {num:,} of {self.num_examples:,} examples, {1 - num / self.num_examples:.0%} skipped"

    def __str__(self) -> str:
        total = f"{len(self.visited)} epochs: {self.skipped:.0%} skipped, {self.seconds:.3g} s in the sampler"
        return "\n".join([*map(self.line, self.visited), total])


def timed(method: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Add the time of every call of a method to the attribute `seconds` of its object."""

    @wraps(method)
    def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        owner: Any = args[0]
        start = time.perf_counter()
        try:
            return method(*args, **kwargs)
        finally:
            owner.seconds += time.perf_counter() - start

    return wrapped

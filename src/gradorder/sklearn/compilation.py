"""Functions compiled by numba at their first call."""

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, **options: Any) -> F:  # noqa: ANN401 - numba's own
    """Compile a function without the interpreter lock and cache the result on disk.

    Numba recompiles a cached function if its own file has changed, but looks at no other file. So a compiled function
    must not use functions or constants of another file.
    """
    try:
        cached: F = njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # numba found no directory to write to: every process compiles for itself
        uncached: F = njit(nogil=True, **options)(function)
        return uncached
    return cached

"""Loops compiled by numba, at the first call for each kind of arguments."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, **options: Any) -> F:  # noqa: ANN401 - numba's own
    """Compiled without the interpreter's lock, and kept on disk where numba finds a directory that it can write to.

    Where it finds none, as with a read-only install and home, every process compiles for itself.
    """
    try:
        kept: F = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # "cannot cache function": nothing else can fail here, as nothing is compiled yet
        kept = numba.njit(nogil=True, **options)(function)
    return kept

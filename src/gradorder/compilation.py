"""Loops compiled by numba, at the first call for each kind of arguments."""

import hashlib
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

_logger = logging.getLogger("gradorder")


def compiled(function: F, **options: Any) -> F:  # noqa: ANN401 - numba's own
    """Compiled without the interpreter's lock, and kept on disk where numba finds a directory that it can write to.

    Where it finds none, as with a read-only install and home, every process compiles for itself. What is kept is true
    as long as no file of the function's package changes: numba itself looks at the function's own file alone, but
    what the function calls is compiled into it.
    """
    dispatcher: Any = numba.njit(nogil=True, **options)(function)
    try:
        dispatcher.enable_caching()
    except RuntimeError:  # "cannot cache function": nothing else can fail here, as nothing is compiled yet
        return dispatcher  # type: ignore[no-any-return]
    kept = dispatcher._cache._cache_file  # noqa: SLF001 - numba has no other way to say what a function depends on
    kept._source_stamp = _digest(Path(inspect.getfile(function)).parent)  # noqa: SLF001
    return dispatcher  # type: ignore[no-any-return]


@cache
def _digest(package: Path) -> str:
    """A number for all that the Python files of a package say."""
    contents = [path.read_bytes() for path in sorted(package.glob("*.py"))]
    return hashlib.sha256(b"\0".join(contents)).hexdigest()


class _Notice(event.Listener):
    """Says in one line that numba has started to compile."""

    def __init__(self, message: str) -> None:
        self._message: str | None = message

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002 - the first one is enough
        """The first function of a call."""
        if self._message:
            _logger.warning(self._message)
            self._message = None

    def on_end(self, event: event.Event) -> None:
        """Nothing to say."""


@contextmanager
def announced(message: str) -> Iterator[None]:
    """Log the message as a warning, which Python shows on stderr unless told otherwise, if numba has to compile.

    What is found compiled, in the process or on disk, is not worth a line.
    """
    with event.install_listener("numba:compile", _Notice(message)):
        yield

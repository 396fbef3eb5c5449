"""How functions of this package are compiled, and for which kinds of data."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import overload

from gradorder.compilation import compiled
from gradorder.sklearn.compiled.vectors import FLAGS

Array = np.ndarray[Any, Any]
MatrixRows = Any
"""A C-contiguous matrix (n, d), or the three arrays of a CSR matrix as a tuple."""
F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Any = {"fastmath": set(FLAGS), "error_model": "numpy", "boundscheck": False}
INLINED: Any = {"forceinline": True}


def kept(function: F) -> F:
    """A function that Python calls: kept on disk with all that it calls."""
    return compiled(function, **_OPTIONS)


def part(function: F) -> F:
    """A function that compiled ones call, and that is kept on disk only as a part of them."""
    compiled: F = njit(nogil=True, **_OPTIONS)(function)
    return compiled


def inlined(function: F) -> F:
    """As `part`, for what a hot loop must not call: whether it is inlined is not left to chance."""
    compiled: F = njit(nogil=True, **INLINED, **_OPTIONS)(function)
    return compiled


def in_sequence(function: F) -> F:
    """As `inlined`, with sums in the order written: reordered, they are gathered into vectors, which is slower."""
    flags = set(FLAGS) - {"reassoc"}
    compiled: F = njit(nogil=True, **INLINED, **{**_OPTIONS, "fastmath": flags})(function)
    return compiled


def chosen_by_type(stub: Callable[..., Any], **options: Any) -> Callable[[F], F]:  # noqa: ANN401 - numba's own
    """Numba's `overload`: a function of types gives the function to be compiled for them."""
    every: Any = {**_OPTIONS, **options}
    decorate: Callable[[F], F] = overload(stub, jit_options=every, strict=False)
    return decorate


def is_sparse(rows: Any) -> bool:  # noqa: ANN401 - a type of numba
    """Whether this type is that of a CSR matrix."""
    return isinstance(rows, types.BaseTuple)

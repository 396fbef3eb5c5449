"""torch.func.vmap without its notes about speed."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def slow_batching_allowed() -> Iterator[None]:
    """Operations that vmap runs one by one inside are as exact as others, and no news to the user."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield

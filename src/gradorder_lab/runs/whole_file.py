"""Files that are there whole or not at all, whenever the process is killed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write what then stands at `path`; an error leaves what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> Path:
    """The file with this text."""
    with whole_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path

"""The bytes of a file, or an error that names it."""

import gzip
import zlib
from pathlib import Path

from gradorder_lab.datasets.errors import DatasetFileError

_GZIP = b"\x1f\x8b"


def read_bytes(path: Path) -> bytes:
    """All bytes of a file, unpacked if it is gzip (by its content: browsers unpack without changing the name)."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetFileError(path, f"cannot be read: {error.strerror}") from error
    return _unpacked(path, content) if content.startswith(_GZIP) else content


def _unpacked(path: Path, content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except EOFError as error:
        raise DatasetFileError(path, f"truncated: its {len(content)} bytes are not a whole gzip file") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DatasetFileError(path, f"corrupt gzip: {error}") from error

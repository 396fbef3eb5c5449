"""Files of data: where they are looked for, their bytes, packed or not, and the images that some of them hold."""

import gzip
import lzma
import os
import zlib
from pathlib import Path
from typing import NamedTuple

import torch

from gradorder_lab.errors import DatasetError, DatasetFileError, DatasetNotFoundError

DATA_VARIABLE = "GRADORDER_DATA"
"""The environment variable that names the data directory where no argument does."""

_GZIP = b"\x1f\x8b"


class LabelledImages(NamedTuple):
    """One split: images uint8 (N, C, H, W), labels int64 (N,)."""

    images: torch.Tensor
    labels: torch.Tensor


class TrainTest(NamedTuple):
    """The two splits of a data set."""

    train: LabelledImages
    test: LabelledImages


def data_directory(data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """The directory given here or in $GRADORDER_DATA; None where there is neither.

    Raises:
        DatasetError: it is not a directory.
    """
    given, said_by = (data_dir, "data_dir") if data_dir is not None else (os.environ.get(DATA_VARIABLE), DATA_VARIABLE)
    if not given:
        return None
    path = Path(given).expanduser()
    if not path.is_dir():
        raise DatasetError(f"{said_by} must be an existing directory, got {path}")
    return path


def found(directory: Path | None, folder: str, name: str, what: str) -> Path:
    """The file `folder/name` of the data directory, or the same with .xz.

    Raises:
        DatasetNotFoundError: it is not there; says what to put where.
    """
    root = data_directory(directory)
    paths = [] if root is None else [root / folder / name, root / folder / f"{name}.xz"]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        parent = "DIR" if root is None else root
        raise DatasetNotFoundError(
            f"{folder}/{name} was not found: put {what} into {parent}/{folder}/{name} (or {name}.xz) and name "
            f"{parent} as the data directory (--data-dir, --data of the benchmark's script, or {DATA_VARIABLE})"
        )
    return path


def read_text(path: Path) -> str:
    """All of it, unpacked if it ends with .xz."""
    try:
        content = path.read_bytes()
        return (lzma.decompress(content) if path.suffix == ".xz" else content).decode("utf-8")
    except OSError as error:
        raise DatasetFileError(path, f"cannot be read: {error.strerror}") from error
    except lzma.LZMAError as error:
        raise DatasetFileError(path, f"corrupt xz: {error}") from error
    except UnicodeDecodeError as error:
        raise DatasetFileError(path, f"must be UTF-8: {error}") from error


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

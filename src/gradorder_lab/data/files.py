"""The data directory, and texts in it."""

import lzma
import os
from pathlib import Path

from gradorder_lab.errors import DatasetError, DatasetFileError, DatasetNotFoundError

DATA_VARIABLE = "GRADORDER_DATA"
"""The environment variable that names the data directory where no argument does."""


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
            f"{parent} as the data directory (--data {parent}, or {DATA_VARIABLE})"
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

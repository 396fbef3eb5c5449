"""Text files of the user's own, packed by xz or not."""

import lzma
from pathlib import Path

from gradorder_lab.data.errors import DatasetFileError, DatasetNotFoundError
from gradorder_lab.data.loading import DATA_VARIABLE, data_directory


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

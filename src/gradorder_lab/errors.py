"""What can go wrong in the laboratory, for the user to mend: the command line shows it in one line."""

from pathlib import Path


class LabError(Exception):
    """Base of the laboratory's own errors."""


class DatasetError(LabError, ValueError):
    """A data set cannot be had as asked for. A `ValueError` too, as every complaint of the library is."""


class DatasetFileError(DatasetError):
    """A file of a data set is truncated, corrupt, or not the file its name says.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path, what_is_wrong: str) -> None:
        super().__init__(f"{path}: {what_is_wrong}")
        self.path = path


class DatasetNotFoundError(DatasetError):
    """A data set's files are in none of the places looked at, and could not be downloaded."""

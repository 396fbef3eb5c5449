"""What can go wrong between a data set's files and its tensors.

All of these are `ValueError` too, so that one `except ValueError` catches every complaint, as in the library.
"""

from pathlib import Path

from gradorder_lab.errors import LabError


class DatasetError(LabError, ValueError):
    """A data set cannot be had as asked for."""


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

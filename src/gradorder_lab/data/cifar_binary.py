"""The binary version of CIFAR-10 and CIFAR-100: records of label bytes and 3 x 32 x 32 pixels, no pickle anywhere.

A record of CIFAR-10 starts with its label, one of CIFAR-100 with its coarse label (of 20) and its fine one (of 100).
"""

import gzip
import tarfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import torch

from gradorder_lab.data.files import LabelledImages, TrainTest, read_bytes
from gradorder_lab.errors import DatasetFileError, DatasetNotFoundError

_COLOUR_SHAPE = (3, 32, 32)
_IMAGE_SIZE = 3 * 32 * 32


@dataclass(frozen=True)
class CifarFiles:
    """The files of one data set, in a folder or in the archive they come in.

    Args:
        folders: where they may lie below the data directory.
        archive: the name of the archive, looked for in the data directory and in `folders`.
        train_files: names, in order.
        test_file: name.
        label_ranges: how many values each label byte of a record may have; the last one is the label.
        records_per_file: what every file must hold, or None where files come in several sizes.
    """

    folders: tuple[str, ...]
    archive: str
    train_files: tuple[str, ...]
    test_file: str
    label_ranges: tuple[int, ...]
    records_per_file: int | None = None

    def read(self, root: Path) -> TrainTest | None:
        """Both splits, or None where `root` holds none of the files.

        Raises:
            DatasetNotFoundError: some of the files are there, and some are not.
            DatasetFileError: a file is truncated, corrupt or another one than its name says.
        """
        contents = self._contents(root)
        if contents is None:
            return None
        parts = {path.name: self._records(path, content) for path, content in contents.items()}
        images, labels = zip(*(parts[name] for name in self.train_files), strict=True)
        return TrainTest(LabelledImages(torch.cat(images), torch.cat(labels)), parts[self.test_file])

    @property
    def _names(self) -> tuple[str, ...]:
        return (*self.train_files, self.test_file)

    def _contents(self, root: Path) -> Mapping[Path, bytes] | None:
        places = [root / name for name in self.folders]
        for folder in places:
            missing = [name for name in self._names if not (folder / name).is_file()]
            if not missing:
                return {folder / name: read_bytes(folder / name) for name in self._names}
            if len(missing) < len(self._names):
                raise DatasetNotFoundError(f"{folder} holds some files of this data set but not {', '.join(missing)}")
        archives = (place / self.archive for place in (root, *places))
        found = next((path for path in archives if path.is_file()), None)
        return None if found is None else read_members(found, self._names)

    def _records(self, path: Path, content: bytes) -> LabelledImages:
        record_size = len(self.label_ranges) + _IMAGE_SIZE
        num_records, rest = divmod(len(content), record_size)
        if rest or not num_records:
            raise DatasetFileError(
                path, f"truncated or corrupt: {len(content)} bytes are no whole number of records of {record_size}"
            )
        if self.records_per_file not in {None, num_records}:
            raise DatasetFileError(path, f"must hold {self.records_per_file} records, got {num_records}")
        records = np.frombuffer(content, np.uint8).reshape(num_records, record_size)
        self._check_labels(path, records)
        images = records[:, len(self.label_ranges) :].reshape(num_records, *_COLOUR_SHAPE)
        labels = records[:, len(self.label_ranges) - 1].astype(np.int64)
        return LabelledImages(torch.from_numpy(images.copy()), torch.from_numpy(labels))

    def _check_labels(self, path: Path, records: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
        for byte, num_values in enumerate(self.label_ranges):
            labels = records[:, byte]
            if labels.max() >= num_values:
                where = int((labels >= num_values).argmax())
                raise DatasetFileError(
                    path, f"labels must be 0 to {num_values - 1}, got {labels[where]} in record {where}"
                )


def read_members(archive: Path, names: Iterable[str]) -> dict[Path, bytes]:
    """The bytes of these members of a .tar.gz, whatever folder they are in; nothing is ever written to disk."""
    wanted = set(names)
    contents = {}
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                stream = tar.extractfile(member) if name in wanted and member.isreg() else None
                if stream is not None:
                    contents[archive / name] = stream.read()
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise DatasetFileError(archive, f"truncated or corrupt archive: {error}") from error
    except OSError as error:
        raise DatasetFileError(archive, f"cannot be read: {error.strerror}") from error
    missing = sorted(wanted - {path.name for path in contents})
    if missing:
        raise DatasetFileError(archive, f"holds no {', '.join(missing)}")
    return contents

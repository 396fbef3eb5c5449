"""The files in which MNIST, Fashion-MNIST and the CIFARs are published: IDX, and CIFAR's binary version. No pickle."""

import gzip
import struct
import tarfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import torch

from gradorder_lab.errors import DatasetFileError

IDX_NAMES = tuple(f"{split}-{kind}-ubyte.gz" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
_COLOUR_SHAPE = (3, 32, 32)


class LabelledImages(NamedTuple):
    """One split: images uint8 (N, C, H, W), labels int64 (N,)."""

    images: torch.Tensor
    labels: torch.Tensor


class TrainTest(NamedTuple):
    """The two splits of a data set."""

    train: LabelledImages
    test: LabelledImages


@dataclass(frozen=True)
class IdxFiles:
    """Four IDX files, packed by gzip, in one of these folders of the data directory."""

    folders: tuple[str, ...]

    def read(self, root: Path) -> TrainTest | None:
        """Both splits, or None if no folder holds the training images.

        Raises:
            DatasetFileError: a file is missing or damaged.
        """
        folder = _folder_with(root, self.folders, IDX_NAMES[0])
        if folder is None:
            return None
        arrays = [_idx_array(folder / name) for name in IDX_NAMES]
        return TrainTest(*(_grey_split(*arrays[place : place + 2]) for place in (0, 2)))


@dataclass(frozen=True)
class CifarFiles:
    """Files of records of label bytes and 3 x 32 x 32 pixels, in a folder or in the archive that is published.

    Args:
        folder: the folder inside the archive; looked for in the data directory.
        archive: looked for in the data directory and in its folder `name`.
        name: of the data set.
        train_files: names, in order.
        test_file: name.
        num_label_bytes: of a record; the last one is the label.
    """

    folder: str
    archive: str
    name: str
    train_files: tuple[str, ...]
    test_file: str
    num_label_bytes: int = 1

    def read(self, root: Path) -> TrainTest | None:
        """Both splits, or None if neither the folder nor the archive is there.

        Raises:
            DatasetFileError: a file is missing or damaged.
        """
        names = (*self.train_files, self.test_file)
        folder = _folder_with(root, (self.folder, f"{self.name}/{self.folder}"), self.test_file)
        place = folder or _folder_with(root, (".", self.name), self.archive)
        if place is None:
            return None
        contents = [_bytes(place / name) for name in names] if folder else _members(place / self.archive, names)
        *train, test = (self._split(place / name, content) for name, content in zip(names, contents, strict=True))
        images, labels = zip(*train, strict=True)
        return TrainTest(LabelledImages(torch.cat(images), torch.cat(labels)), test)

    def _split(self, path: Path, content: bytes) -> LabelledImages:
        size = self.num_label_bytes + int(np.prod(_COLOUR_SHAPE))
        if len(content) % size or not content:
            raise DatasetFileError(path, f"must hold records of {size} bytes, got {len(content)} bytes")
        records = np.frombuffer(content, np.uint8).reshape(-1, size)
        images = records[:, self.num_label_bytes :].reshape(-1, *_COLOUR_SHAPE)
        labels = records[:, self.num_label_bytes - 1].astype(np.int64)
        return LabelledImages(torch.from_numpy(images.copy()), torch.from_numpy(labels))


def _folder_with(root: Path, folders: Iterable[str], name: str) -> Path | None:
    return next((root / folder for folder in folders if (root / folder / name).is_file()), None)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DatasetFileError(path, f"cannot be read: {error.strerror}") from error


def _grey_split(images: torch.Tensor, labels: torch.Tensor) -> LabelledImages:
    return LabelledImages(images.unsqueeze(1), labels.long())


def _idx_array(path: Path) -> torch.Tensor:
    """Big-endian: two zero bytes, 8 for unsigned bytes, the number of dimensions, each dimension, the bytes."""
    try:
        content = gzip.decompress(_bytes(path))
        (num_dimensions,) = struct.unpack_from(">xxxB", content)
        shape = struct.unpack_from(f">{num_dimensions}I", content, 4)
        array = np.frombuffer(content, np.uint8, offset=4 + 4 * num_dimensions).reshape(shape)
    except (EOFError, gzip.BadGzipFile, zlib.error, struct.error, ValueError) as error:
        raise DatasetFileError(path, f"must be the original IDX file, packed by gzip: {error}") from error
    return torch.from_numpy(array.copy())


def _members(archive: Path, names: Iterable[str]) -> list[bytes]:
    """The bytes of these members of a .tar.gz, whatever folder they are in. Nothing is written to disk."""
    found = {}
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is not None:
                    found[PurePosixPath(member.name).name] = stream.read()
    except (EOFError, OSError, zlib.error, tarfile.TarError) as error:
        raise DatasetFileError(archive, f"must be the original archive: {error}") from error
    if missing := [name for name in names if name not in found]:
        raise DatasetFileError(archive, f"must be the original archive: it has no {', '.join(missing)}")
    return [found[name] for name in names]

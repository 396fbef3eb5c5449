"""The IDX format of MNIST and Fashion-MNIST.

Big-endian: two zero bytes, 0x08 for unsigned bytes, the number of dimensions, each dimension as four bytes, the bytes.
"""

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from gradorder_lab.data.files import LabelledImages, TrainTest, read_bytes
from gradorder_lab.errors import DatasetFileError, DatasetNotFoundError

_UNSIGNED_BYTE = 0x08
_GREY_SHAPE = (28, 28)
_NUM_CLASSES = 10
IDX_NAMES = tuple(f"{split}-{kind}-ubyte" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))


@dataclass(frozen=True)
class IdxFiles:
    """The four files of a data set of 28x28 grey images.

    Args:
        folders: where they may lie below the data directory, in the order of trust.
        look_alikes: SHA-256 of the unpacked test label file -> the data set that it belongs to, for data sets whose
            files have the same names and shapes as these.
    """

    folders: tuple[str, ...]
    look_alikes: Mapping[str, str] = field(default_factory=dict)

    def read(self, root: Path) -> TrainTest | None:
        """Both splits, or None where `root` holds none of the files.

        Raises:
            DatasetNotFoundError: some of the files are there, and some are not.
            DatasetFileError: a file is truncated, corrupt or another one than its name says.
        """
        for folder in (root / name for name in self.folders):
            paths = [_variant(folder, name) for name in IDX_NAMES]
            found = [path for path in paths if path is not None]
            if len(found) == len(IDX_NAMES):
                train_images, train_labels, test_images, test_labels = found
                self._refuse_look_alike(test_labels)
                return TrainTest(self._split(train_images, train_labels), self._split(test_images, test_labels))
            if found:
                missing = [name for name, path in zip(IDX_NAMES, paths, strict=True) if path is None]
                raise DatasetNotFoundError(f"{folder} holds {found[0].name} but not {', '.join(missing)} (.gz or not)")
        return None

    def _split(self, images_path: Path, labels_path: Path) -> LabelledImages:
        images, labels = read_images(images_path), read_labels(labels_path)
        if len(images) != len(labels):
            raise DatasetFileError(labels_path, f"{len(labels)} labels for the {len(images)} images of {images_path}")
        return LabelledImages(images, labels)

    def _refuse_look_alike(self, labels_path: Path) -> None:
        digest = hashlib.sha256(read_bytes(labels_path)).hexdigest()
        if digest in self.look_alikes:
            raise DatasetFileError(labels_path, f"these are the labels of {self.look_alikes[digest]}")


def read_images(path: Path) -> torch.Tensor:
    """Images of an IDX file, uint8 (N, 1, 28, 28)."""
    images = read_idx(path, num_dimensions=3)
    if images.shape[1:] != _GREY_SHAPE:
        raise DatasetFileError(path, f"images must be 28 x 28, got {' x '.join(map(str, images.shape[1:]))}")
    return torch.from_numpy(images).unsqueeze(1)


def read_labels(path: Path) -> torch.Tensor:
    """Labels of an IDX file, int64 (N,)."""
    labels = read_idx(path, num_dimensions=1)
    if labels.max() >= _NUM_CLASSES:
        where = int((labels >= _NUM_CLASSES).argmax())
        raise DatasetFileError(path, f"labels must be 0 to {_NUM_CLASSES - 1}, got {labels[where]} at position {where}")
    return torch.from_numpy(labels).long()


def read_idx(path: Path, *, num_dimensions: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The array of an IDX file of unsigned bytes, gzip or not, with at least one entry.

    Raises:
        DatasetFileError: a wrong start, or another number of bytes than the header promises.
    """
    content = read_bytes(path)
    start, header_size = bytes((0, 0, _UNSIGNED_BYTE, num_dimensions)), 4 + 4 * num_dimensions
    if not content.startswith(start):
        got = content[:4].hex(" ") or "nothing"
        raise DatasetFileError(path, f"not the IDX file expected here: it must start with {start.hex(' ')}, got {got}")
    if len(content) < header_size:
        raise DatasetFileError(path, f"truncated: {len(content)} bytes, the header alone has {header_size}")
    shape = struct.unpack_from(f">{num_dimensions}I", content, 4)
    _check_size(path, shape, len(content) - header_size)
    return np.frombuffer(content, np.uint8, offset=header_size).reshape(shape).copy()


def _check_size(path: Path, shape: tuple[int, ...], num_bytes: int) -> None:
    promised = math.prod(shape)
    if promised != num_bytes or not promised:
        what = "truncated" if num_bytes < promised else "corrupt"
        sizes = " x ".join(map(str, shape))
        raise DatasetFileError(path, f"{what}: the header promises {sizes} = {promised} bytes, {num_bytes} follow")


def _variant(folder: Path, name: str) -> Path | None:
    """The file under its original name, unpacked, or with the dot that some unpackers put into it."""
    dotted = name.replace("-idx", ".idx")
    candidates = (folder / variant for variant in (f"{name}.gz", name, f"{dotted}.gz", dotted))
    return next((path for path in candidates if path.is_file()), None)

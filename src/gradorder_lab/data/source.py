"""What a data set of images is: which files it comes in, where they are public, and the bytes that they hold."""

import gzip
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from gradorder_lab.data.errors import DatasetFileError

_GZIP = b"\x1f\x8b"


class LabelledImages(NamedTuple):
    """One split: images uint8 (N, C, H, W), labels int64 (N,)."""

    images: torch.Tensor
    labels: torch.Tensor


class TrainTest(NamedTuple):
    """The two splits of a data set."""

    train: LabelledImages
    test: LabelledImages


class Files(Protocol):
    """Files of one format."""

    def read(self, root: Path) -> TrainTest | None:
        """Both splits, or None where `root` holds none of the files."""


@dataclass(frozen=True)
class Remote:
    """A public file: its name, the hash of its bytes as pooch writes it, and where it may be had."""

    name: str
    known_hash: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """One data set.

    Args:
        name: as in `load(name)`; also the folder that users may put the files into.
        title: as people write it.
        class_names: in the order of the labels.
        mean: of the training pixels / 255, one per channel.
        std: of the training pixels / 255, one per channel.
        num_train: of the complete data set.
        num_test: of the complete data set.
        num_mini_train: of size "mini".
        num_mini_test: of size "mini".
        files: how it is read.
        remotes: what is downloaded.
        is_embedded: whether size "mini" is shipped with the package.
    """

    name: str
    title: str
    class_names: tuple[str, ...] = field(repr=False)
    mean: tuple[float, ...]
    std: tuple[float, ...]
    num_train: int
    num_test: int
    num_mini_train: int
    num_mini_test: int
    files: Files
    remotes: tuple[Remote, ...]
    is_embedded: bool

    @property
    def num_channels(self) -> int:
        """Colours of a pixel."""
        return len(self.mean)


def remotes_at(hashes: dict[str, str], *mirrors: str) -> tuple[Remote, ...]:
    """Files with their hashes, each to be had from every mirror."""
    return tuple(Remote(name, known, tuple(f"{url}{name}" for url in mirrors)) for name, known in hashes.items())


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

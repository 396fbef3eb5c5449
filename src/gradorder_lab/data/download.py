"""Public files, fetched once into a cache and checked against their SHA-256."""

import sys
from dataclasses import dataclass
from pathlib import Path

from gradorder_lab.errors import DatasetError


@dataclass(frozen=True)
class Remote:
    """A public file: its name, its SHA-256, and the addresses that serve it."""

    name: str
    sha256: str
    urls: tuple[str, ...]


class DownloadError(DatasetError):
    """A file could not be fetched; the message says from where and why."""


def cache_dir() -> Path:
    """Where downloads are kept: the operating system's place for caches."""
    import pooch  # noqa: PLC0415 - only downloads need it

    return Path(pooch.os_cache("gradorder"))


def fetch(remote: Remote, folder: Path) -> Path:
    """The file in `folder`, downloaded unless it is there with the right hash. Each address is tried in turn.

    The file appears under its name only when it is whole and its hash is right.

    Raises:
        DownloadError: no address gave the right file.
    """
    import pooch  # noqa: PLC0415 - only downloads need it

    reasons = []
    has_bar = sys.stderr.isatty()  # in a log file it would be noise
    for url in remote.urls:
        try:
            return Path(pooch.retrieve(url, f"sha256:{remote.sha256}", remote.name, folder, progressbar=has_bar))
        except (OSError, ValueError) as error:  # the network or the disk; the hash is wrong
            reasons.append(f"{url}: {type(error).__name__}: {str(error).splitlines()[0]}")
    raise DownloadError("; ".join(reasons))

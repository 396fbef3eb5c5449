"""Public files fetched once into a cache, checked against their known hashes."""

import sys
from pathlib import Path

from gradorder_lab.data.sources import Remote
from gradorder_lab.errors import DatasetError

_NUM_TRIES = 3


class DownloadError(DatasetError):
    """A file could not be fetched; the message says from where and why."""


def cache_dir() -> Path:
    """Where downloads are kept: the operating system's place for caches."""
    import pooch  # noqa: PLC0415 - only downloads need it

    return Path(pooch.os_cache("gradorder"))


def fetch(remote: Remote, folder: Path) -> Path:
    """The file in `folder`, downloaded unless it is there with the right hash.

    Each mirror is tried in turn, a broken transfer again. The file appears under its name only when it is whole and
    its hash is right, so an interrupted download leaves nothing to trip over and two processes do not disturb each
    other.

    Raises:
        DownloadError: no mirror gave the right file.
    """
    reasons: list[str] = []
    for url in remote.urls:
        path = _fetch_from(url, remote, folder, reasons)
        if path is not None:
            return path
    raise DownloadError("; ".join(reasons))


def _fetch_from(url: str, remote: Remote, folder: Path, reasons: list[str]) -> Path | None:
    """The file from one mirror, or None, with the reasons added to `reasons`."""
    import pooch  # noqa: PLC0415 - only downloads need it
    import requests  # noqa: PLC0415

    has_bar = sys.stderr.isatty()  # in a log file it would be noise; pooch says in one line what it does anyway
    for _ in range(_NUM_TRIES):
        try:
            return Path(pooch.retrieve(url, remote.known_hash, remote.name, folder, progressbar=has_bar))
        except requests.RequestException as error:
            reasons.append(f"{url}: {_in_short(error)}")
            if _is_final(error):
                return None
        except ValueError as error:  # pooch: the hash is wrong
            reasons.append(f"{url}: {_in_short(error)}")
        except OSError as error:
            raise DownloadError(f"{folder / remote.name} cannot be written: {error.strerror}") from error
    return None


def _is_final(error: Exception) -> bool:
    """Whether this mirror was never reached or refused: then trying again at once would only cost time."""
    import requests  # noqa: PLC0415
    from urllib3.exceptions import MaxRetryError  # noqa: PLC0415

    return isinstance(error, requests.HTTPError) or any(isinstance(cause, MaxRetryError) for cause in error.args)


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"

"""Which versions of a framework its plug-in works with."""

import re
from importlib import metadata


def check_version(package: str, oldest: str) -> None:
    """Refuse an installed version that is too old; a package that is not installed is left to its import.

    Raises:
        ImportError: with what is needed and what is there.
    """
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        return
    if _numbers(installed) < _numbers(oldest):
        raise ImportError(
            f"gradorder.integrations.{package} needs {package} {oldest} or newer, and {installed} is installed: "
            f'pip install "{package}>={oldest}"'
        )


def _numbers(version: str) -> list[int]:
    """The first two, which are what a plug-in may depend on."""
    return [int(number) for number in re.findall(r"\d+", version)[:2]]

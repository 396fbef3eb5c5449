"""Which modules are looked at for doctests."""

from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """A module without a prompt has no doctest and is not imported for one: some need frameworks that take seconds."""
    is_module = collection_path.suffix == ".py"
    return True if is_module and ">>>" not in collection_path.read_text(encoding="utf-8") else None

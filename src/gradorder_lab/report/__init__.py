"""rows -> page."""

from pathlib import Path

from gradorder_lab.summary import Summary


def write(summary: Summary, out: Path) -> Path:
    return out / "index.html"

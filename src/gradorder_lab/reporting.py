"""`gradorder report`: the page from the rows of a directory, or from the results shipped with the laboratory."""

from pathlib import Path

from gradorder_lab import report, shipped


def write_page(out: Path) -> Path:
    """Write `out/index.html` and return its path."""
    return report.write(shipped.summary_of(out), out)

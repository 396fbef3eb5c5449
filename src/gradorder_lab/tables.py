"""A table as data. What draws it is elsewhere."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of cells, as text.

    Args:
        name: for links and files.
        title: of the table.
        caption: what to look at.
        header: one name per column.
        rows: as wide as the header.
        experiment: what fills it.
        num_labels: how many columns from the left are words; the others are numbers.
    """

    name: str
    title: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    experiment: str
    num_labels: int = 1

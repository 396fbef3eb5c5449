"""Figures and tables as data: what a page or a script draws."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gradorder_lab.runs.recipe import Array
from gradorder_lab.runs.summary import Band

X_LABELS = {"updates": "updates (example gradients)", "epoch": "epoch", "cost": "example gradients with scoring"}


@dataclass(frozen=True, eq=False)
class Curve:
    """One method: its band against each of the x-axes on offer."""

    label: str
    x: Mapping[str, Array]
    band: Band
    num_seeds: int


@dataclass(frozen=True, eq=False)
class Panel:
    """Curves on common axes; `missing` names the methods that have not been run, `name` is for other figures."""

    title: str
    curves: tuple[Curve, ...]
    missing: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, eq=False)
class Figure:
    """Panels row by row.

    Args:
        name: for links and files.
        title: the paper's name for it, or ours.
        caption: what to look at.
        panels: all rows one after the other.
        num_columns: panels per row.
        y_label: of every panel.
        x_labels: column of the rows -> what to call it; the first is shown at first.
        is_log: whether y starts logarithmic.
        is_against: whether differences from random are shown first, because bands would lie over everything.
        experiment: what fills it.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    num_columns: int
    experiment: str
    y_label: str = "F - F*"
    x_labels: Mapping[str, str] = field(default_factory=lambda: X_LABELS)
    is_log: bool = True
    is_against: bool = False


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

"""One colour per ordering on the whole page, told apart by dashes too.

The colours are those of Okabe and Ito, darkened or lightened where the background asks for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle


@dataclass(frozen=True)
class LineStyle:
    """How the curves with one label are drawn: the colour on light and on dark, and plotly's name of the dash."""

    light: str
    dark: str
    dash: str


_ORDERINGS = {
    "descending": LineStyle("#d55e00", "#ff7f2a", "solid"),
    "random": LineStyle("#1b1f24", "#f2f2f2", "dash"),
    "ascending": LineStyle("#0072b2", "#4aa3e0", "dot"),
    "shuffled once": LineStyle("#b97a00", "#e69f00", "dashdot"),
    "flip-flop": LineStyle("#00855f", "#1fc795", "longdash"),
    "Plackett-Luce": LineStyle("#b2558a", "#dd92bd", "longdashdot"),
}
_SKY = LineStyle("#2a8fc9", "#8fd0f5", "solid")
_SYNONYMS = {"ordered": "descending", "decreasing": "descending", "increasing": "ascending"}
_OTHERS = (*(style for ordering, style in _ORDERINGS.items() if ordering != "random"), _SKY)
_DASHES = tuple(style.dash for style in _ORDERINGS.values())


def line_styles(figures: Iterable[Iterable[str]]) -> dict[str, LineStyle]:
    """A style for each label of each figure.

    A label that names an ordering has its colour; within a figure no two labels share a dash while there are enough.
    """
    others = cycle(_OTHERS)
    styles: dict[str, LineStyle] = {}
    for labels in map(dict.fromkeys, figures):
        for label in labels:
            if label not in styles:
                like = _of_ordering(label) or next(others)
                taken = [styles[other].dash for other in labels if other in styles]
                free = next((dash for dash in (like.dash, *_DASHES) if dash not in taken), like.dash)
                styles[label] = LineStyle(like.light, like.dark, free)
    return styles


def _of_ordering(label: str) -> LineStyle | None:
    names = {name: name for name in _ORDERINGS} | _SYNONYMS
    return next((_ORDERINGS[ordering] for name, ordering in names.items() if name in label), None)

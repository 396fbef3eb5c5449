"""One colour per ordering on the whole page, told apart by dashes too.

The colours are those of Okabe and Ito, darkened or lightened where the background asks for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

_COLOURS = {
    "black": ("#1b1f24", "#f2f2f2"),
    "vermilion": ("#d55e00", "#ff7f2a"),
    "blue": ("#0072b2", "#4aa3e0"),
    "orange": ("#b97a00", "#e69f00"),
    "green": ("#00855f", "#1fc795"),
    "purple": ("#b2558a", "#dd92bd"),
    "sky": ("#2a8fc9", "#8fd0f5"),
}
"""name -> on a light and on a dark background."""

_ORDERINGS = {
    "random": "black",
    "descending": "vermilion",
    "ordered": "vermilion",
    "ascending": "blue",
    "shuffled once": "orange",
    "flip-flop": "green",
    "Plackett-Luce": "purple",
}
_OTHERS = ("vermilion", "blue", "green", "purple", "orange", "sky")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True)
class LineStyle:
    """How the curves with one label are drawn; the dash is plotly's name for it."""

    light: str
    dark: str
    dash: str


def line_styles(labels: Iterable[str]) -> dict[str, LineStyle]:
    """A style for each label. Labels that name the same ordering share its colour and differ in their dashes."""
    others = cycle(_OTHERS)
    styles: dict[str, LineStyle] = {}
    for label in dict.fromkeys(labels):
        colour = _colour_of_ordering(label) or next(others)
        light, dark = _COLOURS[colour]
        styles[label] = LineStyle(light, dark, _free_dash(light, styles.values()))
    return styles


def _colour_of_ordering(label: str) -> str | None:
    return next((colour for ordering, colour in _ORDERINGS.items() if ordering in label), None)


def _free_dash(colour: str, taken: Iterable[LineStyle]) -> str:
    """The next dash for this colour; each colour begins with another one, so that the dash alone tells them apart."""
    num_taken = sum(style.light == colour for style in taken)
    first = list(_COLOURS.values()).index(next(pair for pair in _COLOURS.values() if pair[0] == colour))
    return _DASHES[(first + num_taken) % len(_DASHES)]

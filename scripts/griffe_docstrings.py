# ruff: noqa: INP001, RUF001 - called by mkdocstrings; it writes sigma as a letter
"""Docstrings as the site shows them: examples as code, formulas typeset, what a card is looked up by in bold."""

import re
from collections.abc import Sequence
from typing import Any

import griffe

_CHANGES = (
    (re.compile(r"^Example:$", re.MULTILINE), "Examples:"),  # the section that the parser knows
    (re.compile(r"::$", re.MULTILINE), ":"),  # the mark of a block that follows, for other readers than markdown
    (re.compile(r"^(Rule|Needs|When|Helps|Hurts|Cost|Reference)\b", re.MULTILINE), r"**\1**"),
)
_TYPESET = (
    (re.compile(r"\bsigma\b"), "σ"),
    (re.compile(r"\bsigma(?=_)"), "σ"),
    (re.compile(r"\|\|"), "‖"),
    (re.compile(r" >= "), " ≥ "),
    (re.compile(r" <= "), " ≤ "),
    (re.compile(r"_\{(.+?)\}"), r"<sub>\1</sub>"),
    (re.compile(r"\b(score|key|sum|pi|tau|[A-Za-zσ])_(\w|\(\w+\))(?!\w)"), r"\1<sub>\2</sub>"),
)


class SiteDocstrings(griffe.Extension):
    """Changes the text before it is parsed; the source stays as it is."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - what griffe passes on
        """Called for everything that has a docstring, and everything else."""
        if obj.docstring is not None:
            obj.docstring.value = for_site(obj.docstring.value)


def for_site(text: str) -> str:
    """The docstring with the changes."""
    return "\n\n".join(_typeset(paragraph) for paragraph in _changed(text, _CHANGES).split("\n\n"))


def _typeset(paragraph: str) -> str:
    """Formulas in plain sentences; code, and lists of arguments, stay as they are."""
    is_plain = "`" not in paragraph and not re.search(r"^(    |Examples?:|Args:|Raises:)", paragraph, re.MULTILINE)
    return _changed(paragraph, _TYPESET) if is_plain else paragraph


def _changed(text: str, changes: Sequence[tuple[re.Pattern[str], str]]) -> str:
    for pattern, replacement in changes:
        text = pattern.sub(replacement, text)
    return text

# ruff: noqa: INP001 - called by mkdocs
"""Fill the tables of the documentation from the committed results, when the site is built.

A page says `<!-- table: NAME -->`; NAME is a function here. Numbers that nobody copies cannot grow old.
`<!-- api: MODULE -->` stands for the classes that a module lists.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

from gradorder.norms.rules import FAMILIES
from gradorder_lab.benchmark.referee import Trial, all_trials
from gradorder_lab.benchmark.rows import read_rows
from gradorder_lab.show.referee import (
    findings,
    groups_table,
    losses_table,
    methods_table,
    promise,
    timing_table,
    trials_table,
)

RESULTS = Path(__file__).resolve().parent.parent / "results"

_MARK = re.compile(r"<!-- (table|api): (.+?) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:  # noqa: ANN401 - what mkdocs passes on
    """Called by mkdocs for every page."""
    return _MARK.sub(lambda found: _KINDS[found[1]](found[2]), markdown)


def _api(module: str) -> str:
    """Return an entry for every class that a module lists: base classes and their arguments first, then the rules."""
    found = importlib.import_module(module)
    classes = {name: getattr(found, name) for name in found.__all__}
    bases = tuple(each for each in classes.values() if inspect.isabstract(each))
    is_rule = {name: issubclass(each, bases) and not inspect.isabstract(each) for name, each in classes.items()}
    return "\n\n".join(f"::: gradorder.{name}" for name in sorted(classes, key=is_rule.__getitem__))


def _table(name: str) -> str:
    if name not in TABLES:
        raise PluginError(f"table must be one of {', '.join(TABLES)}, got {name!r}")
    return TABLES[name]()


def rules() -> str:
    """The operations of the autograd graph that `gradient_norms` knows, with the rules of each, from the registry."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for family, registry in FAMILIES.items():
        for name, rule in registry.items():
            shared = "–" if rule.gradients is None else _first_line(rule.gradients)
            names.setdefault((family, _first_line(rule.places), shared), []).append(name)
    head = ("family", "operations", "where the examples are", "gradients of a shared input, per example")
    return _as_markdown(head, [[family, ", ".join(own), *texts] for (family, *texts), own in names.items()])


def _first_line(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").split("\n")[0].rstrip(".")


@cache
def _trials() -> list[Trial]:
    return all_trials(read_rows(RESULTS / "benchmark.parquet"))


def _as_markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


_KINDS: Mapping[str, Callable[[str], str]] = {"table": _table, "api": _api}

TABLES: Mapping[str, Callable[[], str]] = {
    "rules": rules,
    "promise": lambda: promise(_trials()),
    "methods": lambda: _as_markdown(*methods_table(_trials())),
    "findings": lambda: findings(_trials()),
    "groups": lambda: _as_markdown(*groups_table(_trials())),
    "losses": lambda: _as_markdown(*losses_table(_trials())),
    "timing": lambda: _as_markdown(*timing_table(_trials())),
    "trials": lambda: _as_markdown(*trials_table(_trials())),
}

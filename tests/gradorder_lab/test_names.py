"""A name means one thing in the whole laboratory, and what the library calls by it is the same thing."""

import ast
from collections.abc import Iterator
from pathlib import Path

import gradorder
import gradorder_lab

IN_SEVERAL_MODULES = {
    "ENTRIES": "what a file of an experiment lists for `paper.EXPERIMENTS`",
    "NAME": "the experiment's, in a file that has one",
    "compare": "the command's options in cli.py, and in commands/ what it does",
    "export": "the same",
    "reproduce": "the same",
}
IN_THE_LIBRARY_TOO = {
    "Array": "an array of numpy's, in the library too in more than one module",
}


def assigned(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple):
        for element in target.elts:
            yield from assigned(element)


def defined(path: Path) -> Iterator[str]:
    """What a module itself gives a name to at its top level."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from assigned(target)
        elif isinstance(statement, ast.AnnAssign):
            yield from assigned(statement.target)


def modules_by_name(package) -> dict[str, set[str]]:
    root = Path(package.__file__).parent
    found: dict[str, set[str]] = {}
    for path in root.rglob("*.py"):
        for name in set(defined(path)) - {"__all__"}:
            found.setdefault(name, set()).add(str(path.relative_to(root)))
    return found


def test_no_name_has_two_meanings_in_the_laboratory():
    doublets = {name: places for name, places in modules_by_name(gradorder_lab).items() if len(places) > 1}
    unexplained = {name: places for name, places in doublets.items() if name not in IN_SEVERAL_MODULES}
    assert not unexplained
    assert set(IN_SEVERAL_MODULES) == set(doublets), "explained, but in one module only"


def test_no_public_name_means_another_thing_in_the_library():
    ours, theirs = (modules_by_name(package) for package in (gradorder_lab, gradorder))
    shared = {name: (ours[name], theirs[name]) for name in ours.keys() & theirs.keys() if not name.startswith("_")}
    assert not {name: places for name, places in shared.items() if name not in IN_THE_LIBRARY_TOO}
    assert set(IN_THE_LIBRARY_TOO) == set(shared), "explained, but not shared"

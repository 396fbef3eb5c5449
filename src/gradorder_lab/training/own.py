"""What users bring along: a file of data, and a network, losses or a method of their own, named as module:name."""

import hashlib
import importlib
import inspect
import sys
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

import gradorder as go
from gradorder import testing
from gradorder_lab.errors import LabError

_MARK = "@"
_DATA = "npz"


def imported(name: str, option: str) -> Any:  # noqa: ANN401 - whatever it is
    """What `module:name` stands for; modules of the current directory are found, too."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise LabError(
            f"{option} {name!r} must name something that can be imported, as module:name: {in_short(error)}"
        ) from error


def in_short(error: BaseException) -> str:
    """What the user's own code, or torch within it, complains of, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def marked(name: str, option: str) -> str:
    """The name with a hash of the files that it comes from: rows of an older version are not taken for a newer one's.

    Those are the file of the function itself and, of a module in the current directory, all that it imports from there.
    """
    found = imported(name, option)
    try:
        source = Path(inspect.getfile(found if inspect.isroutine(found) or inspect.isclass(found) else type(found)))
        return with_hash(name, source, *_imported_from_here(name.partition(":")[0]))
    except (TypeError, OSError) as error:
        raise LabError(
            f"{option} {name!r} must come from a file, so that a change of it is noticed: {error}"
        ) from error


def _imported_from_here(module: str) -> list[Path]:
    """The files of a module of the current directory, and of what it imports from there, without running them."""
    finder = ModuleFinder(path=[str(Path.cwd())])
    try:
        finder.import_hook(module)
    except ImportError:  # it lies elsewhere
        return []
    files = [getattr(found, "__file__", None) for found in finder.modules.values()]
    return [Path(file) for file in files if file is not None]


def with_hash(name: str, *paths: Path) -> str:
    """The name with a hash of the content of these files."""
    contents = sorted({path.resolve() for path in paths})
    return f"{name}{_MARK}{hashlib.sha256(b''.join(path.read_bytes() for path in contents)).hexdigest()[:8]}"


def content(path: Path) -> str:
    """What a file of data is called in rows: by its content, wherever it lies."""
    return with_hash(_DATA, path)


def file_of(data: str, file: Path | None) -> Path:
    """The user's file: `data` is its path, or its content's name, and then `file` has to have that content."""
    if not data.startswith(f"{_DATA}{_MARK}"):
        return Path(data)
    if file is None or not file.is_file() or content(file) != data:
        raise LabError(f"the data {data} must be in the file that was named with --data, but {file} is another one")
    return file


def unmarked(name: str) -> str:
    """The name without its hash."""
    return name.rpartition(_MARK)[0] or name


def rule(marked_name: str) -> go.Ordering | go.Selection:
    """The user's ordering or selection: itself, its class, or a function without arguments that makes one."""
    name = unmarked(marked_name)
    found = imported(name, "--method")
    try:
        made = found if isinstance(found, go.Ordering | go.Selection) else found()
    except TypeError as error:
        raise LabError(
            f"--method {name!r} must be an ordering or a selection, or be called without arguments for one: {error}"
        ) from error
    if not isinstance(made, go.Ordering | go.Selection):
        raise LabError(f"--method {name!r} must give a gradorder.Ordering or a gradorder.Selection, got {made!r}")
    return made


def check_own_rule(marked_name: str) -> None:
    """Refuse an ordering that breaks the contract of orderings, before anything is trained by it."""
    made = rule(marked_name)
    if isinstance(made, go.Selection):  # needs a network: `check_fit` tries it
        return
    try:
        testing.check_ordering(made)
    except Exception as error:
        raise LabError(
            f"--method {unmarked(marked_name)!r} must keep the contract of orderings: {in_short(error)}"
        ) from error

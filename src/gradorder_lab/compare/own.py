"""What users bring along: a network or an ordering of their own, named as module:name."""

import hashlib
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import gradorder as go
from gradorder_lab.errors import LabError

_MARK = "@"


def imported(name: str, option: str) -> Any:  # noqa: ANN401 - whatever it is
    """What `module:name` stands for; modules of the current directory are found, too."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        raise LabError(
            f"{option} {name!r} must name something that can be imported, as module:name: {error}"
        ) from error


def identified(name: str) -> str:
    """The name with a hash of the file that it comes from: rows of an older version are not taken for a newer one's."""
    found = imported(name, "--method")
    try:
        source = Path(inspect.getfile(found if inspect.isroutine(found) or inspect.isclass(found) else type(found)))
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
    except (TypeError, OSError) as error:
        raise LabError(
            f"--method {name!r} must come from a file, so that a change of it is noticed: {error}"
        ) from error
    return f"{name}{_MARK}{digest[:8]}"


def ordering(identified_name: str) -> go.Ordering:
    """The rule: an ordering, its class, or a function without arguments that makes one."""
    name = identified_name.partition(_MARK)[0]
    found = imported(name, "--method")
    try:
        rule = found if isinstance(found, go.Ordering) else found()
    except TypeError as error:
        raise LabError(
            f"--method {name!r} must be an ordering, or be called without arguments for one: {error}"
        ) from error
    if not isinstance(rule, go.Ordering):
        raise LabError(f"--method {name!r} must give a gradorder.Ordering, got {rule!r}")
    return rule

"""Where rows come from: commit, host, processor, versions, the go, and what the runs were fed with, as hashes.

A go is one invocation of a command. Times are compared within one go only: another one may have had another machine,
or other work beside it.
"""

import hashlib
import os
import platform
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import gradorder
from gradorder_lab.errors import LabError
from gradorder_lab.runs.recipe import Recipe, Setting

CONTENT = "sha256 of "
"""What the names of facts about contents begin with: two runs with different ones are not comparable."""

DIRTY = "-dirty"
"""What marks the commit of a changed checkout."""

_PACKAGES = ("torch", "numpy", "scikit-learn", "numba", "scipy")


def facts() -> dict[str, Setting]:
    """The environment of this process, as plain values."""
    found: dict[str, Setting] = {"gradorder": gradorder.__version__, "commit": _commit(), "go": go()}
    found |= {"python": platform.python_version(), "machine": _machine(), "host": _host(), "cpus": os.cpu_count()}
    return found | {package: _version(package) for package in _PACKAGES}


@cache
def go() -> str:
    """This invocation of the program."""
    return uuid.uuid4().hex[:12]


def check_shippable(found: Mapping[str, Setting]) -> None:
    """Refuse rows that do not name a clean commit, a host, a processor and a go.

    Raises:
        LabError: what is missing, and what to do.
    """
    if not found.get("commit") or str(found["commit"]).endswith(DIRTY):
        raise LabError(
            f"rows that are shipped must be of a clean commit, got {found.get('commit')}: commit what has changed in "
            "src and benchmarks, and run them again"
        )
    if missing := [name for name in ("host", "machine", "go") if not found.get(name)]:
        raise LabError(f"rows that are shipped must name their {' and '.join(missing)}: run them again")


def content_facts(recipes: Iterable[Recipe], data: Path | None) -> dict[str, Setting]:
    """One fact for each data set, problem and network of these recipes; none for what is not there."""
    found: dict[str, str] = {}
    for recipe in recipes:
        with suppress(LabError):
            found |= recipe.contents(data)
    return {f"{CONTENT}{name}": found[name] for name in sorted(found)}


def digest(arrays: Iterable[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]) -> str:
    """Of numbers: their types, their shapes and their bytes."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine() -> str:
    """The processor: its name, family, model and stepping, because a name such as "AMD EPYC" stands for many."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return f"{platform.system()} {platform.machine()}, {platform.processor()}"
    known = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    parts = [known.get("model name", "")]
    parts += [f"{name} {known[key]}" for key, name in _PROCESSOR.items() if key in known]
    return ", ".join([f"{platform.system()} {platform.machine()}", *filter(None, parts)])


_PROCESSOR = {"cpu family": "family", "model": "model", "stepping": "stepping"}


def _host() -> str:
    """A hash that tells hosts apart, never their name."""
    machine_id = Path("/etc/machine-id")
    known = (platform.node(), str(uuid.getnode()), machine_id.read_text() if machine_id.exists() else "")
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:12]


def _commit() -> str | None:
    """The commit of a source checkout, marked where its code was changed; None where the package was installed."""
    root = Path(gradorder.__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "--short=12", "HEAD").strip()
        changed = _git(root, "status", "--porcelain", "--", "src", "benchmarks")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}{DIRTY}" if changed else commit


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout  # noqa: S603

"""Where rows come from: versions, threads, machine, commit, and what the runs were fed with, as hashes."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import gradorder
from gradorder_lab.errors import LabError
from gradorder_lab.runs.recipe import Recipe, Setting

CONTENT = "sha256 of "
"""What the names of facts about contents begin with: two runs with different ones are not comparable."""

_PACKAGES = ("torch", "numpy", "scikit-learn", "numba", "scipy")


def facts() -> dict[str, Setting]:
    """The environment of this process, as plain values."""
    found: dict[str, Setting] = {"gradorder": gradorder.__version__, "commit": _commit()}
    found |= {"python": platform.python_version(), "machine": _machine(), "cpus": os.cpu_count()}
    return found | {package: _version(package) for package in _PACKAGES}


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
    """The kind of processor, never the host's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{platform.system()} {platform.machine()}" + (f", {names[0]}" if names else "")


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
    return f"{commit}-dirty" if changed else commit


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout  # noqa: S603

"""What is compiled is kept where it can be, stays true when a file changes, and is announced as it takes time."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradorder

pytestmark = pytest.mark.slow

PACKAGE = Path(gradorder.__file__).parent
FIT = """
import numpy as np
from gradorder.sklearn import OrderedSGDRegressor, compiled
inputs = np.random.default_rng(0).standard_normal((50, 3))
model = OrderedSGDRegressor(random_state=0).fit(inputs, inputs @ [1.0, 2.0, 3.0])
print(model.score(inputs, inputs @ [1.0, 2.0, 3.0]) > 0.9, compiled.run_epochs._cache.cache_path)
"""
OUTER = """
from gradorder.compilation import compiled
from kept.inner import one
@compiled
def two():
    return 2 * one()
"""
INNER = """
import numba
@numba.njit
def one():
    return {}
"""


def run(code, **environment):
    command = [sys.executable, "-c", code]
    # Bytecode where it is kept: without it each of these would parse all of torch.
    passed = {name: os.environ[name] for name in ("PATH", "PYTHONPYCACHEPREFIX") if name in os.environ}
    given = {"OMP_NUM_THREADS": "1", **passed, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=given, timeout=300)


def test_with_no_place_to_write_it_is_compiled_for_the_process(tmp_path):
    """A package and a home that cannot be written to, not even by root: files stand where directories would be made."""
    site, blocked = tmp_path / "site", tmp_path / "blocked"
    shutil.copytree(PACKAGE, site / "gradorder", ignore=shutil.ignore_patterns("__pycache__"))
    for directory in [site / "gradorder", *(site / "gradorder").rglob("*/")]:
        (directory / "__pycache__").touch()
    blocked.touch()
    result = run(FIT, PYTHONPATH=str(site), HOME=str(blocked / "home"))
    assert result.stdout == "True None\n", result.stderr
    assert result.stderr.count("compiles its training loop") == 1


def test_a_change_in_another_file_of_the_package_is_seen(tmp_path):
    package = tmp_path / "kept"
    package.mkdir()
    (package / "outer.py").write_text(OUTER)
    code = "from kept.outer import two; print(two(), sum(two.stats.cache_hits.values()))"
    seen = []
    for value in (1, 1, 5):
        (package / "inner.py").write_text(INNER.format(value))
        result = run(code, PYTHONPATH=f"{tmp_path}:{PACKAGE.parent}", PYTHONDONTWRITEBYTECODE="1")
        assert result.returncode == 0, result.stderr
        seen.append(result.stdout.split())
    assert seen == [["2", "0"], ["2", "1"], ["10", "0"]]


def test_only_compiling_is_announced(tmp_path):
    environment = {"PYTHONPATH": str(PACKAGE.parent), "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = run(FIT, **environment), run(FIT, **environment)
    assert first.stdout == second.stdout
    assert len(first.stderr.splitlines()) == 1
    assert first.stderr.startswith("gradorder.sklearn compiles its training loop for this kind of data")
    assert not second.stderr


def test_nothing_is_compiled_at_import():
    code = """
import gradorder.sklearn.compiled as compiled
print(sum(len(each.signatures) for each in vars(compiled).values() if hasattr(each, "signatures")))
"""
    assert run(code, PYTHONPATH=str(PACKAGE.parent)).stdout == "0\n"

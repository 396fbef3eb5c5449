"""The compiled loop is cached where it can be, the cache is always right, and importing compiles nothing."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradorder
from gradorder.sklearn import compiled
from gradorder_lab.problems import compiled as of_problems

PACKAGE = Path(gradorder.__file__).parent
SHUFFLE = """
import numpy as np
from gradorder.sklearn import compiled
at_import = sum(len(each.signatures) for each in vars(compiled).values() if hasattr(each, "signatures"))
order = np.empty(5, dtype=np.int64)
compiled.shuffle(order, np.uint64(3), 0)  # the smallest of the compiled functions
print(at_import, sorted(order.tolist()) == [0, 1, 2, 3, 4], sum(compiled.shuffle.stats.cache_hits.values()))
"""


def shuffled(**environment):
    """Functions compiled at import, whether the order is right, and how many functions were found in the cache."""
    # Bytecode where it is kept: without it each of these would parse all of torch.
    passed = {name: os.environ[name] for name in ("PATH", "PYTHONPYCACHEPREFIX") if name in os.environ}
    run = subprocess.run(
        [sys.executable, "-c", SHUFFLE], capture_output=True, text=True, check=False, timeout=500,
        env={"OMP_NUM_THREADS": "1", **passed, **environment},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.mark.slow
def test_with_no_place_to_write_every_process_compiles_for_itself(tmp_path):
    """A package and a home that cannot be written to, not even by root: files stand where directories would be made."""
    site, blocked = tmp_path / "site", tmp_path / "blocked"
    shutil.copytree(PACKAGE, site / "gradorder", ignore=shutil.ignore_patterns("__pycache__"))
    for directory in [site / "gradorder", *(site / "gradorder").rglob("*/")]:
        (directory / "__pycache__").touch()
    blocked.touch()
    assert shuffled(PYTHONPATH=str(site), HOME=str(blocked / "home")) == ["0", "True", "0"]


@pytest.mark.slow
def test_the_next_process_finds_it_compiled(tmp_path):
    environment = {"PYTHONPATH": str(PACKAGE.parent), "NUMBA_CACHE_DIR": str(tmp_path)}
    assert [shuffled(**environment)[-1] for _ in range(2)] == ["0", "1"]


@pytest.mark.parametrize("module", [compiled, of_problems])
def test_compiled_functions_use_nothing_of_other_files(module):
    """Numba's cache would not notice a change there."""
    source = ast.parse(Path(module.__file__).read_text())
    imported = {
        alias.asname or alias.name
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("gradorder")
        for alias in node.names
    }
    functions = [each for each in vars(module).values() if hasattr(each, "py_func")]
    assert len(functions) > 5
    for function in functions:
        assert not imported & set(function.py_func.__code__.co_names), function

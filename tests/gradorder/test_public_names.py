import subprocess
import sys

import pytest


@pytest.mark.slow
def test_importing_needs_torch_and_numpy_only_and_touches_no_random_state():
    code = """
import random, sys
import numpy as np, torch
before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
known = set(sys.modules)
import gradorder
assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
new = {name.split(".")[0] for name in set(sys.modules) - known} - set(sys.stdlib_module_names)
print(sorted(new & {"tqdm", "rich", "typer", "sklearn", "matplotlib", "numba", "gradorder_lab"}))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert result.stdout == "[]\n"

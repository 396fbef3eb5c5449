"""Without a framework its module says what to install, and the library does not ask for any."""

import json
import subprocess
import sys
from functools import cache

import pytest

pytestmark = pytest.mark.slow

FRAMEWORKS = ["lightning", "accelerate", "transformers", "trl"]
CODE = f"""
import importlib, json, sys
import gradorder, gradorder.integrations, gradorder.integrations.framework
found = {{"imported": sorted({{"torchdata", *{FRAMEWORKS}}} & set(sys.modules))}}
for framework in {FRAMEWORKS}:
    sys.modules[framework] = None
    try:
        importlib.import_module(f"gradorder.integrations.{{framework}}")
    except ImportError as error:
        found[framework] = str(error)
    del sys.modules[framework]
print(json.dumps(found))
"""


@cache
def found():
    """One new interpreter for all: loading torch takes seconds."""
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(result.stdout)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_missing_framework_is_named_with_its_extra(framework):
    assert f'pip install "gradorder[{framework}]"' in found()[framework]


def test_importing_the_library_imports_no_framework():
    assert found()["imported"] == []

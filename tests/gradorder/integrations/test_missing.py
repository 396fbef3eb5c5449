"""Without a framework its module says what to install, and the library does not ask for any."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("framework", ["lightning", "accelerate", "transformers", "trl"])
def test_a_missing_framework_is_named_with_its_extra(framework):
    code = f"""
import sys
sys.modules["{framework}"] = None
try:
    import gradorder.integrations.{framework}
except ImportError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f'pip install "gradorder[{framework}]"' in result.stdout


def test_importing_the_library_imports_no_framework():
    code = """
import sys
import gradorder, gradorder.integrations, gradorder.integrations.planned
print(sorted({"lightning", "accelerate", "transformers", "trl", "torchdata"} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"

"""The blocks of the documentation, and the scripts that fill its tables."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def blocks(path):
    """The Python blocks of a Markdown file."""
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def run(path):
    """Run all blocks of a Markdown file and return the variables at the end."""
    namespace = {"__name__": "__main__"}
    exec(compile("\n".join(blocks(path)), str(path), "exec"), namespace)  # noqa: S102 - our own page
    return namespace


def loaded(script):
    """A script of the folder `scripts` as a module."""
    spec = importlib.util.spec_from_file_location(script, ROOT / "scripts" / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""What the two distributions say of each other, and of the repository."""

import re
import tomllib
from pathlib import Path

import gradorder

ROOT = Path(__file__).parent.parent
LIBRARY, LAB = (tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for folder in (".", "lab"))


def test_both_have_one_version_and_ask_for_it():
    assert LAB["version"] == gradorder.__version__
    assert LIBRARY["optional-dependencies"]["lab"] == [f"gradorder-lab=={gradorder.__version__}"]
    assert f"gradorder[progress,sklearn]=={gradorder.__version__}" in LAB["dependencies"]


def test_a_release_is_in_the_changelog():
    released = re.findall(r"^## (\S+), \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert gradorder.__version__ in released or "dev" in gradorder.__version__


def test_both_have_one_licence():
    assert (ROOT / "lab" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()

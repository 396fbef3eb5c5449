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


def test_both_have_one_licence_and_one_repository():
    assert (ROOT / "lab" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert LIBRARY["urls"]["Repository"] == LAB["urls"]["Repository"]
    written = "\n".join((ROOT / path).read_text() for path in ("pyproject.toml", "lab/pyproject.toml", "lab/README.md"))
    owner_and_name = LIBRARY["urls"]["Repository"].removeprefix("https://github.com/")
    found = re.findall(r"https://(?:raw\.githubusercontent|github)\.com/([\w-]+/[\w-]+)", written)
    assert set(found) == {owner_and_name}


def test_every_link_to_a_file_leads_to_one():
    text = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) + re.findall(r'(?:src|href)="([^"#]+)"', text)
    assert links
    missing = [link for link in links if not link.startswith("http") and not (ROOT / link).exists()]
    assert not missing

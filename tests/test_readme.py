"""Every Python block of README and docs runs, and every link of the pages outside docs leads somewhere."""

import re
from pathlib import Path

import pages
import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [path for path in [README, *sorted(DOCS.rglob("*.md"))] if pages.blocks(path)]
# These pages show only what a user writes, and the frameworks warn about other things.
FRAMEWORKS = {"accelerate.md", "lightning.md", "transformers.md", "trl.md"}


def page(path):
    marks = [pytest.mark.filterwarnings("ignore")] if path.name in FRAMEWORKS else []
    return pytest.param(path, id=str(path.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("path", [page(path) for path in PAGES])
def test_every_block_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages.run(path)


def test_the_diff_leads_from_a_plain_loop_to_the_whole_script():
    (diff,) = re.findall(r"^```diff\n(.*?)^```", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line or " " for line in diff.splitlines()]
    before, after = ("\n".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
    (script,) = pages.blocks(README)
    setup, _ = script.split(after)
    names = {}
    exec(f"{setup}\nfrom torch.utils.data import DataLoader\n{before}", names)  # noqa: S102 - our own page
    assert "shuffle=True" in before
    assert names["epoch"] == names["epochs"] - 1


def slug(heading):
    """The anchor of a heading."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.strip().lower()))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_link_leads_somewhere(name):
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", (ROOT / name).read_text())
    for target, anchor in links:
        path = ROOT / (target or name)
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.MULTILINE)
            assert anchor in map(slug, headings), (target, anchor)
    assert links or name == "CHANGELOG.md"

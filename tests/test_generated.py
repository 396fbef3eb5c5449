"""The text, tables and pictures that are made from `results/`."""

import re
import runpy
import sys
from pathlib import Path

import pytest
import svg
from pages import loaded

from gradorder.diagnostics.measured import MEASURED

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def test_the_committed_pictures_are_those_that_the_command_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pictures.py", "--out", str(tmp_path)])
    runpy.run_path(ROOT / "scripts" / "pictures.py", run_name="__main__")
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text() for path in (DOCS / "pictures").iterdir()}
    assert drawn.keys() == committed.keys()
    changed = [name for name in drawn if not svg.is_same(drawn[name], committed[name])]
    assert not changed, "run `make generated`: the results have changed, or the way they are drawn"


def test_what_is_said_of_the_results_is_what_the_command_writes():
    generated = loaded("generated")
    text = "\n".join(path.read_text() for path in generated.DOCUMENTS)
    names = re.findall(r"^<!-- (\w+) -->$", text, flags=re.MULTILINE)
    assert set(names) == {*generated.PARTS, "end"}
    assert len(names) == 2 * names.count("end")
    for path in generated.DOCUMENTS:
        assert generated.filled(path.read_text()) == path.read_text(), "run `make generated`: the results have changed"


def test_the_tasks_of_advise_are_the_measured_ones():
    generated = loaded("generated")
    code = generated.MEASURED.read_text()
    assert generated.with_measured(code) == code, "run `make generated`: the results have changed"
    assert len(MEASURED) > 10
    assert all(0 < task.skipped < 1 and 0 < task.gradients < 1 for task in MEASURED)


def test_every_table_that_a_page_asks_for_can_be_made():
    hooks = loaded("docs_hooks")
    asked = [name for path in DOCS.rglob("*.md") for name in re.findall(r"<!-- table: (.+?) -->", path.read_text())]
    assert set(asked) == set(hooks.TABLES)
    for name in hooks.TABLES:
        page = hooks.on_page_markdown(f"before\n\n<!-- table: {name} -->\n\nafter", page=None, config=None, files=None)
        assert page.startswith("before\n\n")
        assert "<!--" not in page
        assert len(page) > 50
    with pytest.raises(Exception, match="table"):
        hooks.on_page_markdown("<!-- table: nothing -->")

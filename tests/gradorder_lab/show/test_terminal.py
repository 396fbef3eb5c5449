import io

import pytest
from rich.console import Console

from gradorder_lab import paper
from gradorder_lab.runs.summary import Summary
from gradorder_lab.show import terminal
from gradorder_lab.show.page import page_of


def screen(page):
    out = io.StringIO()
    terminal.show(Console(file=out, width=80), page, "mini")
    return out.getvalue()


@pytest.fixture(scope="module")
def only_synthetic(full_summary):
    names = {recipe.identity for recipe in paper.EXPERIMENTS["synthetic"].recipes("mini")}
    return Summary({name: runs for name, runs in full_summary.recipes.items() if name in names})


def test_it_ends_with_one_screen(full_summary):
    page = page_of(full_summary, shipped_runs=full_summary)
    lines = screen(page).splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    for row in page.claims:
        count = row.claim.count
        (line,) = [line for line in lines if line.startswith(f"{row.claim.name} ")]
        assert str(row.claim.verdict) in line
        assert not count.judged or f" {count.holds}/{count.judged}" in line


def test_what_was_not_requested_is_named_with_its_command(only_synthetic, full_summary):
    page = page_of(only_synthetic, shipped_runs=full_summary)
    text = screen(page)
    listed = [line.split()[0] for line in text.splitlines() if line.startswith("C") and "," not in line]
    assert [name for name in listed if name[1:].isdigit()] == ["C1", "C2", "C3"]
    names = [name for name in paper.EXPERIMENTS if name != "synthetic" and paper.EXPERIMENTS[name].recipes("mini")]
    assert f"gradorder reproduce {' '.join(names)} --size mini" in text
    assert "not tested" not in text.partition("Not requested")[0]


def test_here_and_shipped_are_compared_on_the_same_cells(only_synthetic, full_summary):
    page = page_of(only_synthetic, shipped_runs=full_summary)
    for row in page.claims[:3]:
        assert row.shipped.count.judged == row.claim.count.judged  # the same runs
        assert row.shipped.count.missing == 0 < row.claim.count.missing
        assert 0 < len(row.shipped.cells) < len(row.claim.cells)

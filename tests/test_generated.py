"""The text, tables and pictures that are made from `results/`."""

import json
import re
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import svg
from benchmark_rows import rows_of
from pages import loaded

from gradorder_lab import paper
from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.rows import read_rows, write_rows
from gradorder_lab.benchmark.suites import ALL
from gradorder_lab.methods import METHODS
from gradorder_lab.runs.shipped import read_table

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


def test_the_promise_counts_what_is_cheaper_beyond_noise_and_what_ends_level(tmp_path, monkeypatch):
    generated = loaded("generated")
    monkeypatch.setattr(generated, "RESULTS", tmp_path)
    plain, worse = {0.25: 75.0, 1.0: 77.0}, {0.25: 75.0, 1.0: 76.7}
    found = {"terrain, 2-layer": (worse, 0.6), "mnist, 2-layer": (plain, 1.0), "fashion-mnist, 2-layer": (plain, 0.4)}
    rows = []
    for task, (accuracies, cost) in found.items():
        rows += rows_of("random reshuffling", plain, 5, task=task)
        rows += rows_of("recommended", accuracies, 5, task=task, cost=cost)
    write_rows(rows, tmp_path / "benchmark.parquet")
    other, tuned = [line.split(" | ") for line in generated.promise().splitlines() if "used for tuning" in line]
    assert other[1] == "0 of 1"
    assert tuned[1].startswith("1 of 2: 0.40")
    assert tuned[2].count("on 1") == 2  # one is level, one is worse


def test_the_caveats_name_every_task_that_misses_something(tmp_path, monkeypatch):
    generated = loaded("generated")
    monkeypatch.setattr(generated, "RESULTS", tmp_path)
    plain, worse, little_worse = {0.25: 75.0, 1.0: 77.0}, {0.25: 70.0, 1.0: 76.7}, {0.25: 75.0, 1.0: 76.95}
    rows = []
    for task, ours, cost, slower in (
        ("terrain, 2-layer", worse, 0.6, 1.0),
        ("mnist, 2-layer", plain, 0.5, 1.2),
        ("fashion-mnist, 2-layer", little_worse, 0.4, 1.0),
        ("mnist, 7-layer", plain, 0.5, 2.1),
    ):
        rows += rows_of("random reshuffling", plain, 5, task=task)
        rows += [
            replace(row, processor_seconds=slower * row.processor_seconds)
            for row in rows_of("recommended", ours, 5, task=task, cost=cost)
        ]
    rows += rows_of("GraB mean", plain, task="mnist, 2-layer", cost=0.3)
    rows += rows_of("GraB pairs", plain, task="mnist, 2-layer", cost=0.4)
    rows += rows_of("InfoBatch", plain, task="mnist, 2-layer", cost=0.7)
    write_rows(rows, tmp_path / "benchmark.parquet")
    lines = [line.strip("| ").split(" | ") for line in generated.caveats().splitlines()[2:]]
    said = {line[0]: line[1:] for line in lines}
    assert said.keys() == {"terrain", "mnist, 2-layer", "mnist, 7-layer"}  # not fashion-mnist: within the margin
    assert "−0.30" in said["terrain"][1]
    assert "GraB mean: 0.30" in said["mnist, 2-layer"][2]
    assert "time" not in said["mnist, 2-layer"][2]
    assert "time" in said["mnist, 7-layer"][2]
    assert "1.05" in said["mnist, 7-layer"][2]


def test_the_caveats_say_where_step_sizes_differ(tmp_path, monkeypatch):
    generated = loaded("generated")
    monkeypatch.setattr(generated, "RESULTS", tmp_path)
    plain, worse = {0.25: 75.0, 1.0: 77.0}, {0.25: 75.0, 1.0: 76.0}
    rows = [replace(row, step_size=0.02) for row in rows_of("random reshuffling", plain, 5, task="mnist, 2-layer")]
    rows += [replace(row, step_size=0.05) for row in rows_of("recommended", worse, 5, task="mnist, 2-layer")]
    write_rows(rows, tmp_path / "benchmark.parquet")
    assert re.search(r"0\.05.*0\.02", generated.caveats())


def test_what_too_few_seeds_show_is_not_counted_as_cheaper(tmp_path, monkeypatch):
    generated = loaded("generated")
    monkeypatch.setattr(generated, "RESULTS", tmp_path)
    plain, rows = {0.25: 75.0, 1.0: 77.0}, []
    for task, seeds in (("terrain, 2-layer", 5), ("mnist, 2-layer", 4)):
        rows += rows_of("random reshuffling", plain, seeds, task=task)
        rows += rows_of("recommended", plain, seeds, task=task, cost=0.5)
    write_rows(rows, tmp_path / "benchmark.parquet")
    assert "| 1 of 1: 0.50 to 0.50" in generated.promise()
    assert "| 0 of 1 |" in generated.promise()
    assert "| mnist, 2-layer | no saving beyond noise" in generated.caveats()


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


def test_verdicts_in_the_tables_are_those_of_the_shipped_results():
    lines = [line.split(" | ") for line in loaded("docs_hooks").claims("C2", "C7").splitlines()[2:]]
    claims = {claim.name: claim for claim in paper.claims(read_table(ROOT / "results" / "lab.parquet"))}
    for name, line in zip(("C2", "C7"), lines, strict=True):
        count = claims[name].count
        assert line[1].startswith(f"{claims[name].verdict}, holds in {count.holds} of {count.judged}")


def test_the_tables_of_savings_are_made_from_the_rows(tmp_path, monkeypatch):
    hooks = loaded("docs_hooks")
    monkeypatch.setattr(hooks, "RESULTS", tmp_path)
    plain, worse = {0.25: 75.0, 0.5: 76.0, 1.0: 77.0}, {0.25: 70.0, 1.0: 71.0}
    found = {"random reshuffling": (plain, 1.0), "recommended": (plain, 0.5), "InfoBatch": (worse, 1.0)}
    rows = [
        replace(one, processor_seconds=1.02 * one.processor_seconds) if method == "recommended" else one
        for method, (accuracies, cost) in found.items()
        for one in rows_of(method, accuracies, task="terrain, 2-layer", cost=cost)
    ]
    write_rows(rows, tmp_path / "benchmark.parquet")
    half, level, ahead = "0.50 (0.50 to 0.50)", "+0.00 (+0.00 to +0.00)", "+1.00 (+1.00 to +1.00)"
    time = "0.51 (0.51 to 0.51)"
    *_, line = hooks.savings().splitlines()
    not_worse = "not worse by more than the margin"
    assert line == f"| terrain, 2-layer | 76.90 | 0.50 | 0.51† | {level} | {not_worse} | {ahead} | {half} | {time}† |"
    *_, line = hooks.nearest().splitlines()
    assert line == f"| terrain, 2-layer | {half} | – | – | not reached | – |"
    heading, _, head, _, best, random, last = hooks.benchmark().splitlines()
    assert heading == "**terrain, 2-layer: target 76.90% (77.00 less 0.1), 3 seeds**"
    assert head.startswith("| method | step | time to target | gradients to target | spent |")
    assert best.startswith(f"| recommended | 0.1 | {time}† | {half} | 0.50 | 77.00 | {level} |")
    assert random.startswith("| random reshuffling | 0.1 | 1.00 (1.00 to 1.00) |")
    assert last.startswith("| InfoBatch | 0.1 | not reached | not reached | 1.00 | 71.00 | −6.00 (−6.00 to −6.00) |")


def test_the_shipped_rows_are_of_the_tasks_and_recipes_that_there_are():
    """A table of what is run no longer would be a wrong one."""
    tasks = {task.name: CompareRecipe.settings_of(task) for task in ALL}
    rows = read_rows(ROOT / "results" / "benchmark.parquet")
    for run in rows:
        assert run.revision in {6, CompareRecipe.revision}  # 6: another schedule in parts of an epoch
        assert json.loads(run.settings).items() <= tasks[run.task].items()
        assert run.method in METHODS
    assert len({run.identity for run in rows}) == len(rows)

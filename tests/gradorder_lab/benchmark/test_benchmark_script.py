"""The benchmark as it is started: what it announces, runs, and joins to the file of rows."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from gradorder_lab.benchmark import rows
from gradorder_lab.benchmark.contest import suitable
from gradorder_lab.benchmark.methods import BASELINE, CORE, METHODS
from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.standard_tasks import ALL
from gradorder_lab.benchmark.task import Task
from gradorder_lab.errors import LabError
from gradorder_lab.runs import origin
from gradorder_lab.runs.store import Store

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "benchmark.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("benchmark_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_two_tasks_have_the_same_runs():
    assert len({rows._of_task(CompareRecipe.settings_of(task)) for task in ALL}) == len(ALL)


def test_help_is_readable(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmark.py", "--help"])
    with pytest.raises(SystemExit):
        script.main()
    assert "20% wrong labels" in " ".join(capsys.readouterr().out.split())


def test_every_task_is_planned_with_its_own_seeds_and_the_core(script):
    for task in ALL:
        plan = script.planned(task.name, CORE, None)
        assert (plan.methods, plan.seeds) == (tuple(suitable(CORE, task)), task.seeds)
        assert plan.budgets[0] == 0.2
        assert plan.budgets[-1] == 1.0
    assert script.planned(ALL[0].name, ("InfoBatch",), 3).methods == (BASELINE, "InfoBatch")


def test_one_step_size_for_all_is_not_searched(script):
    plan = script.planned(ALL[0].name, CORE, None, 0.2)
    assert plan.searches([]) == []
    assert {recipe.step_size for recipe, _ in plan.runs([])} == {0.2}


@pytest.mark.parametrize(
    ("given", "message"), [(["nothing"], "unknown tasks: nothing"), (["--methods", "best"], "unknown methods: best")]
)
def test_what_is_not_known_is_refused(script, given, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmark.py", *given])
    with pytest.raises(SystemExit):
        script.main()
    assert message in capsys.readouterr().err


def test_a_dirty_tree_runs_nothing(script, tmp_path, monkeypatch):
    monkeypatch.setattr(origin, "_commit", lambda: "abc-dirty")
    monkeypatch.setattr(
        sys, "argv", ["benchmark.py", "--out", str(tmp_path), "--results", str(tmp_path / "rows.parquet")]
    )
    with pytest.raises(LabError, match="clean commit"):
        script.main()
    assert list(tmp_path.iterdir()) == []


def test_groups_of_methods(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmark.py", "--methods", "all"])
    assert script.arguments().methods == tuple(METHODS)


def test_it_announces_runs_and_joins(script, tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    inputs = (np.eye(3)[labels] * 2 + rng.standard_normal((400, 3))).astype(np.float32)
    np.savez(tmp_path / "own.npz", x_train=inputs[:300], y_train=labels[:300], x_test=inputs[300:], y_test=labels[300:])
    task = Task("tiny", str(tmp_path / "own.npz"), "2-layer", epochs=2, batch_size=30, step_sizes=(0.05,))
    monkeypatch.setattr(script, "KNOWN", {"tiny": task})
    monkeypatch.setattr(origin, "_commit", lambda: "abc")
    monkeypatch.setattr(script, "join", lambda path, places: rows.join(path, places, [task]))
    files = ["--out", str(tmp_path / "out"), "--results", str(tmp_path / "rows.parquet")]
    monkeypatch.setattr(
        sys, "argv", ["benchmark.py", "--methods", "shuffle once", "--seeds", "2", "--jobs", "1", *files]
    )
    script.main()
    told = capsys.readouterr().out
    assert "tiny: 2 methods, 0 trainings to search step sizes and 28 that count" in told
    assert "shuffle once" in told
    found = rows.read_rows(tmp_path / "rows.parquet")
    assert len(found) == 28
    assert sorted(run.place for run in found) == list(range(28))
    seeds = [run.seed for run in sorted(found, key=lambda run: run.place)]
    assert seeds == [0] * 14 + [1] * 14  # one after the other, and methods mixed:
    methods = [run.method for run in sorted(found, key=lambda run: run.place)][:14]
    assert methods not in (sorted(methods), sorted(methods, reverse=True))

    elsewhere = ["--out", str(tmp_path / "elsewhere"), *files[2:]]
    monkeypatch.setattr(sys, "argv", ["benchmark.py", "--methods", "shuffle once", "--seeds", "3", *elsewhere])
    script.main()  # what the file has is not run again
    assert len(rows.read_rows(tmp_path / "rows.parquet")) == 42
    with Store(tmp_path / "elsewhere") as store:
        assert {run.seed for run in rows.runs_in(store, [task])} == {2}

"""What the benchmark writes is what the report reads; its tasks are what they should be."""

import importlib.util
from pathlib import Path

import pytest

from gradorder_lab.benchmark.contest import Ratio, Row, Standings
from gradorder_lab.benchmark.methods import BASELINE, CORE, METHODS
from gradorder_lab.benchmark.task import Task
from gradorder_lab.show.headline import time_to_target_table

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "time_to_target.py"


@pytest.fixture(scope="module")
def benchmark_script():
    spec = importlib.util.spec_from_file_location("time_to_target", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def comparison(name, time):
    ratio = Ratio(time, time - 0.1, time + 0.1)
    ratios = dict.fromkeys(("processor_seconds", "seconds", "trained", "forward"), ratio)
    reached = Row("recommended", 0.1, 0.6, ratios, 89.5, (0.1, -0.1, 0.3), (0.4, 0.2, 0.6), (0.5, 0.3, 0.7))
    failed = Row("InfoBatch", 0.05, None, None, 88.0, (-1.4, -1.6, -1.2), (-1.0, -1.5, -0.5), (-1.0, -1.5, -0.5))
    return Standings(Task(name, "terrain", "2-layer", epochs=10), 0.5, 89.4, 0.1, (reached, failed))


def test_the_report_reads_what_is_written(benchmark_script, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark_script, "RESULTS", tmp_path / "time_to_target.csv")
    benchmark_script.write(list(benchmark_script.lines(comparison("first", 0.7))))
    benchmark_script.write(list(benchmark_script.lines(comparison("second", 0.8))))
    benchmark_script.write(list(benchmark_script.lines(comparison("first", 0.5))))
    table = time_to_target_table(tmp_path / "time_to_target.csv")
    assert table.header[:4] == ("task", "method", "time", "wall time")
    found = {row[:2]: row[2] for row in table.rows}
    assert found == {
        ("second", "recommended"): "0.8 (0.7 to 0.9)",
        ("second", "InfoBatch"): "not reached",
        ("first", "recommended"): "0.5 (0.4 to 0.6)",
        ("first", "InfoBatch"): "not reached",
    }


def test_tasks_stand_in_the_order_of_the_plans(benchmark_script, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark_script, "RESULTS", tmp_path / "time_to_target.csv")
    names = [plan.task.name for plan in benchmark_script.plans()]
    for name in reversed(names):
        benchmark_script.write(list(benchmark_script.lines(comparison(name, 0.7))))
    table = time_to_target_table(tmp_path / "time_to_target.csv")
    assert list(dict.fromkeys(row[0] for row in table.rows)) == names


def test_every_method_where_it_is_cheap_and_the_core_everywhere(benchmark_script):
    plans = benchmark_script.plans()
    for plan in plans:
        assert set(CORE) <= set(plan.methods)
        assert plan.methods[0] == BASELINE
        assert max(plan.budgets) == 1.0
        assert plan.seeds >= 5
    complete = [plan.task.name for plan in plans if set(plan.methods) == set(METHODS)]
    assert complete == ["terrain, 2-layer", "mnist, 2-layer", "fashion-mnist, 2-layer"]
    assert {plan.task.data for plan in plans} == {"mnist", "fashion-mnist", "cifar10", "terrain", "snippets"}

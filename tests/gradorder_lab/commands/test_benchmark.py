"""The benchmark as it is started: what it announces, runs, and joins to the file of rows."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from gradorder_lab import cli
from gradorder_lab.benchmark import rows
from gradorder_lab.benchmark.contest import suitable
from gradorder_lab.benchmark.suites import CIFAR10_GPU, EVERY, SUITES, Suite, methods_for
from gradorder_lab.benchmark.task import Task
from gradorder_lab.commands import benchmark as command
from gradorder_lab.commands.benchmark import BenchmarkRequest, planned
from gradorder_lab.errors import LabError
from gradorder_lab.methods import BASELINE, METHODS, RANDOM_STRATIFIED, RECOMMENDED, REFEREE, named
from gradorder_lab.runs import origin
from gradorder_lab.runs.store import Store


def test_no_two_tasks_have_the_same_runs_or_name():
    assert len({rows._as_text(rows.task_settings(task)) for task in EVERY}) == len(EVERY)
    assert len({task.name for task in EVERY}) == len(EVERY)


def test_every_task_is_planned_with_its_own_seeds_and_the_methods_of_its_suite():
    for task in EVERY:
        plan = planned(task, BenchmarkRequest())
        assert (plan.methods, plan.seeds) == (tuple(suitable(methods_for(task), task)), task.seeds)
    assert methods_for(EVERY[0]) == REFEREE
    assert methods_for(CIFAR10_GPU[0]) == (BASELINE, RANDOM_STRATIFIED, RECOMMENDED, "InfoBatch")
    assert planned(EVERY[0], BenchmarkRequest(methods=("InfoBatch",), seeds=3)).methods == (BASELINE, "InfoBatch")
    assert planned(EVERY[0], BenchmarkRequest(methods=("all",))).methods == tuple(suitable(METHODS, EVERY[0]))


def test_one_step_size_for_all_is_not_searched():
    plan = planned(EVERY[0], BenchmarkRequest(step_size=0.2))
    assert plan.searches([]) == []
    assert {recipe.step_size for recipe, _ in plan.runs([])} == {0.2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": ("nothing",)}, "TASK must be one of: .*; got 'nothing'"),
        ({"methods": ("best",)}, "--method must be one of: random reshuffling, .*; got 'best'"),
        ({"suite": "large"}, "--suite must be one of .*, got 'large'"),
    ],
)
def test_what_is_not_known_is_refused(change, message, tmp_path):
    with pytest.raises(LabError, match=message):
        command.benchmark(replace(BenchmarkRequest(), **change), tmp_path)


def test_a_dirty_tree_ships_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(origin, "_commit", lambda: "abc-dirty")
    with pytest.raises(LabError, match="clean commit"):
        command.benchmark(BenchmarkRequest(results=tmp_path / "rows.parquet"), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    inputs = (np.eye(3)[labels] * 2 + rng.standard_normal((400, 3))).astype(np.float32)
    np.savez(tmp_path / "own.npz", x_train=inputs[:300], y_train=labels[:300], x_test=inputs[300:], y_test=labels[300:])
    task = Task("tiny", str(tmp_path / "own.npz"), "2-layer", epochs=2, batch_size=30, step_sizes=(0.05,))
    monkeypatch.setitem(SUITES, "confirmation", Suite((task,)))
    monkeypatch.setattr(command, "join", lambda path, places: rows.join(path, places, [task]))
    return task


def test_it_announces_runs_and_joins(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(origin, "_commit", lambda: "abc")
    asked = BenchmarkRequest(methods=("shuffle once",), seeds=2, results=tmp_path / "rows.parquet")
    command.benchmark(asked, tmp_path / "out")
    told = capsys.readouterr().out
    assert "12 that count" in told
    assert "shuffle once" in told
    found = rows.read_rows(tmp_path / "rows.parquet")
    assert len(found) == 12
    assert sorted(run.place for run in found) == list(range(12))
    seeds = [run.seed for run in sorted(found, key=lambda run: run.place)]
    assert seeds == [0] * 6 + [1] * 6  # one after the other, and within a seed by chance:
    budgets = [run.budget for run in sorted(found, key=lambda run: run.place)][:6]
    assert budgets not in (sorted(budgets), sorted(budgets, reverse=True))

    command.benchmark(replace(asked, seeds=3), tmp_path / "elsewhere")  # what the file has is not run again
    assert len(rows.read_rows(tmp_path / "rows.parquet")) == 18
    with Store(tmp_path / "elsewhere") as store:
        assert {run.seed for run in rows.runs_in(store, [tiny])} == {2}


def test_without_a_file_to_ship_the_rows_are_a_table_beside_the_store(tiny, tmp_path, monkeypatch):
    given = ("--method", "shuffle once", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "out"))
    monkeypatch.setattr(sys, "argv", ["gradorder", "benchmark", *given])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0
    found = rows.read_rows(tmp_path / "out" / rows.BENCHMARK_RESULTS)
    assert {run.method for run in found} == {BASELINE, "shuffle once"}
    assert len(found) == 6


@pytest.fixture
def few_images(tmp_path):
    """The task for GPUs with few images."""
    images = np.random.default_rng(0).standard_normal((50, 3, 32, 32)).astype(np.float32)
    labels = np.arange(50) % 10
    parts = {"x_train": images[:40], "y_train": labels[:40], "x_test": images[40:], "y_test": labels[40:]}
    np.savez(tmp_path / "images.npz", **parts)
    return replace(CIFAR10_GPU[0], data=str(tmp_path / "images.npz"), epochs=2, batch_size=16, step_sizes=(0.05,))


@pytest.mark.slow
def test_the_suite_for_gpus_runs_on_few_images(few_images, tmp_path, monkeypatch):
    small = replace(few_images, model="resnet20", name="few images")
    monkeypatch.setitem(SUITES, "cifar10", Suite((small,), SUITES["cifar10"].methods))
    command.benchmark(BenchmarkRequest(suite="cifar10", seeds=1), tmp_path / "out")
    with Store(tmp_path / "out") as store:
        found = rows.runs_in(store, [small])
    assert {run.method for run in found} == set(SUITES["cifar10"].methods)
    assert {run.device for run in found} == {"cpu"}


@pytest.mark.slow
@pytest.mark.parametrize("method", SUITES["cifar10"].methods)
def test_a_step_of_the_full_network_on_another_device(method, few_images):
    """On `meta` no number is computed, but an operation with tensors of two devices raises."""
    training = replace(few_images, mixed_precision=False).training(named(method), 0.05)  # meta has no autocast
    run = training.start_on(training.split(None), 0, "meta")
    batch, weights = run.selected(run.train.batch(run.batches(0)[0]))
    _, losses = run.update(tuple(part.to("meta") for part in batch), weights, 0.05)
    assert losses.device.type == "meta"
    assert all(parameter.grad is not None for parameter in run.model.parameters())

"""The rows of the benchmark: from the store into one file, again and again."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradorder_lab.benchmark import suites
from gradorder_lab.benchmark.recipe import CompareRecipe, task_settings
from gradorder_lab.benchmark.rows import (
    BENCHMARK_RESULTS,
    join,
    read_rows,
    rows_of_task,
    runs_in,
    with_new_rows,
    write_rows,
)
from gradorder_lab.benchmark.task import Task
from gradorder_lab.errors import LabError
from gradorder_lab.methods import BASELINE, METHODS
from gradorder_lab.runs.store import Store

TASK = Task("named", "terrain", "2-layer", epochs=10)
FACTS = {
    "machine": "a processor",
    "torch": "2.0",
    "python": "3.11",
    "commit": "abc",
    "threads": 1,
    "host": "h",
    "go": "g",
}


def add(store, seed, *, task=TASK, budget=0.5, started=0.0, accuracy=90.0):
    numbers = {"test_accuracy": accuracy, "test_loss": 0.3, "trained": 500, "forward": 600, "backward": 500}
    numbers |= {"updates": 5, "processor_seconds": 1.5, "seconds": 2.5, "started": started}
    recipe = CompareRecipe.of(task, BASELINE, 0.1, budget)
    store.add(recipe, seed, {name: np.array([float(value)]) for name, value in numbers.items()}, 3.0)


def test_a_run_becomes_a_row_with_all_that_is_known(tmp_path):
    with Store(tmp_path, FACTS) as store:
        add(store, 0, started=20.0)
        add(store, 1, started=10.0)
        late, early = runs_in(store, [TASK])[::-1]
    assert (early.seed, early.place, late.seed, late.place) == (1, 0, 0, 1)
    assert early.identity == ("named", BASELINE, 0.1, 0.5, 1, False)
    assert json.loads(early.settings) == task_settings(TASK)
    assert (early.accuracy, early.loss, early.steps) == (90.0, 0.3, 5)
    assert (early.example_gradients, early.forward_passes, early.backward_passes) == (500, 600, 500)
    assert (early.processor_seconds, early.wall_seconds) == (1.5, 2.5)
    assert (early.machine, early.commit, early.revision) == ("a processor", "abc", CompareRecipe.revision)
    assert json.loads(early.versions) == {"python": "3.11", "torch": "2.0"}


def test_what_was_written_is_read(tmp_path):
    with Store(tmp_path, FACTS) as store:
        add(store, 0)
        rows = runs_in(store, [TASK])
    write_rows(rows, tmp_path / "rows.parquet")
    assert read_rows(tmp_path / "rows.parquet") == rows


def test_rows_join_those_that_are_there_as_they_come(tmp_path):
    path, out = tmp_path / "rows.parquet", tmp_path / "out"
    with Store(out, FACTS) as store:
        add(store, 0)
        assert join(path, [out], [TASK]) == 1
        add(store, 1)
        assert join(path, [out], [TASK]) == 2
        assert join(path, [out], [TASK]) == 2
        add(store, 0, task=replace(TASK, epochs=3))  # of no task that has a name
        assert join(path, [out], [TASK]) == 2
    assert [run.seed for run in read_rows(path)] == [0, 1]


def test_a_new_row_counts_and_what_a_changed_task_had_is_left_out(tmp_path):
    with Store(tmp_path, FACTS) as store:
        add(store, 0)
        (old,) = runs_in(store, [TASK])
    new = replace(old, accuracy=91.0)
    assert with_new_rows([old], [new]) == [new]
    other = replace(old, task="other")
    assert with_new_rows([old, other], [replace(new, settings="{}")]) == [replace(new, settings="{}"), other]
    assert with_new_rows([old], [replace(new, seed=3, revision=99)]) == [replace(new, seed=3, revision=99)]


@pytest.mark.parametrize("changes", [{"commit": "abc-dirty"}, {"commit": None}, {"host": ""}, {"go": ""}])
def test_rows_of_a_dirty_tree_or_of_nowhere_are_not_shipped(tmp_path, changes):
    path, out = tmp_path / "rows.parquet", tmp_path / "out"
    with Store(out, FACTS | changes) as store:
        add(store, 0)
    with pytest.raises(LabError, match="shipped"):
        join(path, [out], [TASK])
    assert not path.exists()


def test_rows_name_their_host_and_their_go_and_older_rows_do_not(tmp_path):
    with Store(tmp_path, FACTS) as store:
        add(store, 0)
        (new,) = runs_in(store, [TASK])
    assert (new.host, new.go) == ("h", "g")
    rows = read_rows(Path(__file__).parents[3] / "results" / BENCHMARK_RESULTS)
    assert all(run.host and run.go and run.commit and not run.commit.endswith("-dirty") for run in rows)


def test_what_holds_no_rows_is_refused(tmp_path):
    with pytest.raises(LabError, match="has no runs"):
        join(tmp_path / "rows.parquet", [tmp_path], [TASK])
    (tmp_path / "other.parquet").write_text("something else")
    with pytest.raises(LabError, match=r"other\.parquet cannot be read as rows of the benchmark"):
        read_rows(tmp_path / "other.parquet")


def test_shipped_rows_are_of_tasks_and_methods_as_they_are_now():
    """So that `known` rows are not run again; and names can be listed with commas between them."""
    rows = read_rows(Path(__file__).parents[3] / "results" / BENCHMARK_RESULTS)
    assert {run.method for run in rows} <= set(METHODS)
    assert len(rows) == sum(len(rows_of_task(task, rows)) for task in suites.EVERY)
    assert not [name for name in METHODS if "," in name]

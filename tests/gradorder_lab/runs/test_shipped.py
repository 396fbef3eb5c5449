import numpy as np
import pytest

from gradorder_lab import paper
from gradorder_lab.errors import LabError
from gradorder_lab.runs import shipped
from gradorder_lab.runs.store import Store
from gradorder_lab.runs.summary import NOT_NOTED, Band, RecipeSummary, Summary


def runs(*seeds):
    values = np.array(seeds, dtype=float)
    band = Band(np.array([values.mean()] * 2), values.min() * np.ones(2), values.max() * np.ones(2))
    return RecipeSummary(np.array(seeds), {"loss": values}, {"loss": band}, np.zeros(len(seeds), np.int64))


def test_seeds_that_only_one_has_are_joined():
    first = Summary({"a": runs(0, 1), "b": runs(0)}, ({"cpus": 1},))
    second = Summary({"a": runs(1), "b": runs(3, 4), "c": runs(5)}, ({"cpus": 2},))
    both = first.with_others(second)
    assert {name: one.seeds.tolist() for name, one in both.recipes.items()} == {"a": [0, 1], "b": [0, 3, 4], "c": [5]}
    assert both.recipes["b"].last["loss"].tolist() == [0, 3, 4]
    assert both.recipes["b"].bands["loss"].mean.tolist() == pytest.approx([7 / 3] * 2)
    assert both.recipes["b"].bands["loss"].high.tolist() == [4, 4]
    assert both.recipes["b"].environments.tolist() == [0, 1, 1]
    assert both.environments == ({"cpus": 1}, {"cpus": 2})


def test_without_runs_the_shipped_results_speak(tmp_path):
    summary = shipped.summary_of(tmp_path)
    for name in ("synthetic", "iris", "boston", "synthetic-far", "synthetic-switch", "selection", "bounds"):
        for recipe in paper.EXPERIMENTS[name].recipes("cpu"):
            assert len(summary.get(recipe).seeds) == 100
    assert list(tmp_path.iterdir()) == []


def test_every_shipped_run_says_where_it_comes_from():
    summary = shipped.shipped_summary()
    for name, data in (("cifar10", "cifar10, cpu"), ("cifar100", "cifar100, cpu"), ("synthetic", "synthetic")):
        for recipe in paper.EXPERIMENTS[name].recipes("cpu"):
            for place in set(summary.get(recipe).environments.tolist()) - {NOT_NOTED}:
                assert f"sha256 of {data}" in summary.environments[place]


def test_runs_of_a_dirty_tree_are_not_shipped(tmp_path):
    clean = {"commit": "abc", "host": "h", "machine": "m", "go": "g"}
    recipe = paper.EXPERIMENTS["synthetic"].recipes("mini")[0]
    for name, facts in (("clean", clean), ("dirty", clean | {"commit": "abc-dirty"})):
        with Store(tmp_path / name, facts) as store:
            store.add(recipe, 0, {"loss": np.ones(2)}, 1.0)
    assert len(shipped.gathered([tmp_path / "clean"]).recipes) == 1
    with pytest.raises(LabError, match="clean commit"):
        shipped.gathered([tmp_path / "clean", tmp_path / "dirty"])


def test_a_directory_without_runs_is_not_shipped(tmp_path):
    with pytest.raises(LabError, match="has no runs"):
        shipped.gathered([tmp_path])

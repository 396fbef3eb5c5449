import numpy as np
import pytest

from gradorder_lab import experiments, shipped
from gradorder_lab.errors import LabError
from gradorder_lab.recipes import side_by_side
from gradorder_lab.summary import RecipeSummary, Summary


def runs(*seeds):
    return RecipeSummary(np.array(seeds), {"loss": np.array(seeds, dtype=float)}, {})


def test_of_a_recipe_that_several_have_the_most_seeds_count():
    first = Summary({"a": runs(0, 1), "b": runs(0)}, ({"cpus": 1},))
    second = Summary({"a": runs(0), "b": runs(0, 1), "c": runs(5)}, ({"cpus": 2},))
    both = shipped.merged([first, second])
    assert {name: one.seeds.tolist() for name, one in both.recipes.items()} == {"a": [0, 1], "b": [0, 1], "c": [5]}
    assert both.environments == ({"cpus": 1}, {"cpus": 2})


def test_without_runs_the_shipped_results_speak(tmp_path):
    summary = shipped.summary_of(tmp_path)
    for name in ("synthetic", "iris", "boston", "synthetic-far", "synthetic-switch", "selection", "bounds"):
        for recipe in experiments.EXPERIMENTS[name].recipes("cpu"):
            assert len(summary.get(recipe).seeds) == 100
    assert all(summary.get(recipe) is not None for recipe in side_by_side.recipes())
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_runs_is_not_shipped(tmp_path):
    with pytest.raises(LabError, match="has no runs"):
        shipped.main(str(tmp_path / "results.npz"), str(tmp_path))

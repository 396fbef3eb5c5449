"""The four algorithms by the library's own sampler, in the laboratory's training loop."""

from dataclasses import replace

import pytest
import torch

from gradorder_lab.convex import ConvexRecipe
from gradorder_lab.problems import points as synthetic
from gradorder_lab.recipes import side_by_side


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def recipe_of(method, task=side_by_side.DIGITS):
    (found,) = [r for r in side_by_side.recipes() if r.method.startswith(method) and r.task_name == task]
    return found


def test_methods_of_one_seed_share_data_and_start():
    for task in (side_by_side.SYNTHETIC, side_by_side.DIGITS):
        starts = {replace(r, epochs=0).run(seed=3)["metric"][0] for r in side_by_side.recipes() if r.task_name == task}
        assert len(starts) == 1


def test_costs_are_counted():
    assert counts(recipe_of("Algorithm 4")) == (20 * (40 * 16 + 9), 20 * 1297)  # of the last 17, 9 are kept
    assert counts(recipe_of("Algorithm 3: from")) == (20 * 1297, 6 * 1297)
    assert counts(recipe_of("Algorithm 2", side_by_side.SYNTHETIC)) == (25 * 16, 25 * 32)


def counts(recipe):
    rows = recipe.run(seed=0)
    return rows["trained"][-1], rows["scored"][-1]


def test_runs_repeat_to_the_bit():
    for method in ("random", "Algorithm 3: sort"):
        first, again = (recipe_of(method).run(seed=1)["metric"].tolist() for _ in range(2))
        assert first == again
        assert first[-1] > 90


def test_algorithm_1_by_hand():
    """The synthetic run again in a few lines without the library."""
    task = synthetic.task(0)
    (points,) = task.train.tensors
    x, step = task.model.x.detach().clone(), 0
    for _ in range(25):
        differences = x - points
        norms = (4 * differences**3 + 2 * differences).norm(dim=1)
        for i in norms.argsort(descending=True, stable=True):
            difference = x - points[i]
            x = x - 1e-4 / (1 + step / 32) * (4 * difference**3 + 2 * difference)
            step += 1
    metric = recipe_of("Algorithm 1", side_by_side.SYNTHETIC).run(seed=0)["metric"]
    assert metric[-1] == pytest.approx(task.metric(synthetic.Point(x)), rel=1e-9)
    assert metric[-1] < metric[0] / 100
    compiled = ConvexRecipe("test", "synthetic", "descending", "1/(1+t/n)").run(seed=0)
    assert compiled["excess"].tolist() == pytest.approx(metric.tolist(), rel=1e-9)


def test_the_minimum_is_one():
    (points,) = synthetic.task(5).train.tensors
    smallest = synthetic.minimiser(points)
    value = synthetic.losses(synthetic.Point(smallest), (points,)).mean()
    for _ in range(50):
        other = smallest + 0.01 * torch.randn(2, dtype=torch.float64)
        assert synthetic.losses(synthetic.Point(other), (points,)).mean() > value

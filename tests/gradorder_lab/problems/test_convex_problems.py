import numpy as np
import pytest
import torch

from gradorder_lab.paper import convex
from gradorder_lab.paper.convex import ConvexRecipe
from gradorder_lab.problems import PROBLEMS, ProblemKind, compiled
from gradorder_lab.problems.regression import boston

SEED = 3


def pulled(problem, w):
    """f_i(w) in torch, from the definition of the paper."""
    directions, targets = torch.from_numpy(problem.directions), torch.from_numpy(problem.targets)
    residuals = torch.einsum("imd,d->im", directions, w) - targets
    if problem.pull == compiled.BOTH:
        return (residuals**4 + residuals**2).sum(1)
    decides = w.detach().expand_as(residuals) if problem.pull == compiled.BY_ITERATE else targets
    return torch.where(decides < 0, residuals**4, residuals**2).sum(1)


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param].of_seed(SEED)


def some_points(problem):
    noise = np.random.default_rng(0).normal(size=(4, len(problem.start)))
    return [problem.start, problem.optimum, *(problem.optimum + 2 * noise)]


def test_losses_and_gradients_are_those_of_autograd(problem):
    for point in some_points(problem):
        w = torch.tensor(point, requires_grad=True)
        losses = pulled(problem, w)
        largest = losses.max().item()  # residuals near 0 are differences of numbers that are not
        np.testing.assert_allclose(problem.losses(point), losses.detach().numpy(), rtol=1e-12, atol=1e-15 * largest)
        assert problem.loss(point) == pytest.approx(losses.mean().item(), rel=1e-12)
        one_each = torch.eye(len(losses), dtype=torch.float64)
        gradients = torch.autograd.grad(losses, w, one_each, is_grads_batched=True)[0].numpy()
        scale = np.abs(gradients).max()
        np.testing.assert_allclose(problem.gradients(point), gradients, rtol=1e-10, atol=1e-13 * scale)
        norms = np.linalg.norm(gradients, axis=1)
        np.testing.assert_allclose(problem.gradient_norms(point), norms, rtol=1e-10, atol=1e-13 * scale)
        np.testing.assert_array_equal(problem.gradient(point, 7), problem.gradients(point)[7])


def test_the_optimum_is_the_lowest_point(problem):
    """No nearby point is lower, and, for the smooth ones, the slope there is gone."""
    generator = np.random.default_rng(1)
    for size in (1e-6, 1e-3, 0.1, 3.0):
        for _ in range(20):
            other = problem.optimum + size * generator.normal(size=len(problem.start))
            assert problem.loss(other) >= problem.optimal_loss * (1 - 1e-14)
    if problem.pull != compiled.BY_ITERATE:
        slope = np.linalg.norm(problem.gradients(problem.optimum).mean(0))
        assert slope < 1e-9 * np.linalg.norm(problem.gradients(problem.start).mean(0))


def test_strong_convexity_is_honest():
    problem = PROBLEMS["synthetic"].of_seed(SEED)
    for point in some_points(problem):
        for other in some_points(problem):
            linear = problem.losses(point) + problem.gradients(point) @ (other - point)
            lowest = linear + problem.strong_convexity / 2 * ((other - point) ** 2).sum()
            assert (problem.losses(other) >= lowest - 1e-9 * np.abs(lowest)).all()


def test_boston_is_the_data_set_of_1978():
    features, prices = boston()
    assert features.shape == (506, 13)
    assert prices.mean() == pytest.approx(22.5328, abs=1e-4)
    assert (prices == 50).sum() == 16
    assert features[:, 3].sum() == 35  # towns at the river


def test_seeds_change_the_synthetic_points_but_not_the_real_data():
    first, second = (PROBLEMS["synthetic"].of_seed(seed) for seed in (0, 1))
    assert not np.array_equal(first.targets, second.targets)
    assert not np.array_equal(first.start, second.start)
    assert np.abs(first.targets).max() <= 10
    first, second = (PROBLEMS["iris scaled"].of_seed(seed) for seed in (0, 1))
    assert np.array_equal(first.directions, second.directions)
    assert np.array_equal(first.start, np.zeros(5))


@pytest.mark.parametrize(("name", "next_step"), [("iris scaled", 2e-3), ("boston scaled", 1e-4)])
def test_the_scaled_step_is_the_largest_with_which_every_order_descends(name, next_step, monkeypatch):
    def num_rises():
        excess = [
            ConvexRecipe("test", name, ordering, "constant").run(seed)["excess"]
            for ordering in ("random", "descending", "ascending")
            for seed in range(3)
        ]
        return int((np.diff(excess, axis=1) > 0).sum())

    assert num_rises() == 0
    larger = ProblemKind(PROBLEMS[name].of_seed, next_step)
    monkeypatch.setattr(convex, "PROBLEMS", {**PROBLEMS, name: larger})
    assert num_rises() > 0

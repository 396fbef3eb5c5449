"""The convex runs again in a few lines of plain numpy, without the library, the compiled loops and the schedules."""

import math

import numpy as np
import pytest
import torch

from gradorder.orderings.ordering import epoch_generator
from gradorder_lab.paper.convex import ORDERINGS, PROBLEMS, ConvexRecipe
from gradorder_lab.training.step_sizes import SCHEDULES

SEED = 2


def step_size(a, schedule, t, k, n):
    return {
        "constant": a,
        "1/(1+t)": a / (1 + t),
        "1/sqrt(1+t)": a / math.sqrt(1 + t),
        "1/(1+t/n)": a / (1 + t / n),
        "1/(1+k)": a / (1 + k),
        "1/sqrt(1+k)": a / math.sqrt(1 + k),
    }[schedule]


class ByHand:
    """One run, example by example."""

    def __init__(self, name, seed):
        problem = PROBLEMS[name].of_seed(seed)
        self.a, self.by_data, self.by_iterate = PROBLEMS[name].step_size, name == "far by data", name == "far"
        self.directions, self.targets, self.w = problem.directions, problem.targets, problem.start.copy()
        self.lowest, self.n, self.t = problem.optimal_loss, len(problem.targets), 0

    def parts(self, i):
        residual = self.directions[i] @ self.w - self.targets[i]
        both = np.ones_like(residual)
        if not (self.by_data or self.by_iterate):
            return residual, both, both
        negative = (self.w if self.by_iterate else self.targets[i]) < 0
        return residual, negative * 1.0, 1.0 - negative

    def loss(self):
        total = 0.0
        for i in range(self.n):
            residual, quartic, quadratic = self.parts(i)
            total += (quartic * residual**4 + quadratic * residual**2).sum()
        return total / self.n

    def gradient(self, i):
        residual, quartic, quadratic = self.parts(i)
        return (quartic * 4 * residual**3 + quadratic * 2 * residual) @ self.directions[i]

    def norm(self, i):
        return np.linalg.norm(self.gradient(i))

    def update(self, i, schedule, epoch, since=(0, 0)):
        t = self.t - since[0] if self.t >= since[0] else self.t
        k = epoch - since[1] if epoch >= since[1] else epoch
        self.w = self.w - step_size(self.a, schedule, t, k, self.n) * self.gradient(i)
        self.t += 1


def shuffled(n, seed, epoch):
    return torch.randperm(n, generator=epoch_generator(seed, epoch)).tolist()


SMALL = [name for name in PROBLEMS if not name.startswith("boston")]


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        *((name, schedule) for name in SMALL for schedule in SCHEDULES),
        ("boston literal", "1/(1+t)"),
        ("boston scaled", "1/(1+k)"),
    ],
)
def test_algorithm_1_by_hand(name, schedule):
    for ordering in ("random", "descending", "ascending"):
        run = ByHand(name, SEED)
        expected = [run.loss()]
        for epoch in range(2):
            order = shuffled(run.n, SEED, epoch)
            if ordering != "random":
                sign = -1 if ordering == "descending" else 1
                order = sorted(range(run.n), key=lambda i: sign * run.norm(i))
            for i in order:
                run.update(i, schedule, epoch)
            expected.append(run.loss())
        rows = ConvexRecipe("test", name, ordering, schedule, epochs=2).run(SEED)
        np.testing.assert_allclose(rows["loss"], expected, rtol=1e-11)
        np.testing.assert_allclose(rows["excess"], rows["loss"] - run.lowest, rtol=1e-11)
        assert rows["updates"].tolist() == [run.n * k for k in range(3)]
        assert rows["scored"].tolist() == [run.n * k * (ordering != "random") for k in range(3)]


@pytest.mark.parametrize("count_from", ["start", "switch"])
@pytest.mark.parametrize("schedule", ["1/(1+t)", "1/(1+k)", "1/(1+t/n)"])
def test_algorithm_2_after_a_warm_up_by_hand(schedule, count_from):
    for name in ("synthetic", "iris scaled"):
        run = ByHand(name, SEED)
        since = (2 * run.n, 2) if count_from == "switch" else (0, 0)
        size, scored = round(0.6 * run.n), 0
        for epoch in range(4):
            order = shuffled(run.n, SEED, epoch)
            for first in range(0, run.n, size if epoch >= 2 else run.n):
                batch = order[first : first + size] if epoch >= 2 else order
                if epoch >= 2:
                    scored += len(batch)
                    batch = sorted(batch, key=run.norm, reverse=True)[: math.ceil(0.5 * len(batch))]
                for i in batch:
                    run.update(i, schedule, epoch, since)
        recipe = ConvexRecipe(
            "test", name, "descending", schedule, 4, warm_up=2, count_from=count_from, batch_fraction=0.6, keep=0.5
        )
        rows = recipe.run(SEED)
        assert rows["loss"][-1] == pytest.approx(run.loss(), rel=1e-11)
        assert (rows["updates"][-1], rows["scored"][-1]) == (run.t, scored)


def test_selection_in_random_order_takes_the_same_examples():
    """With one batch per epoch and a step that does not move, only the order within the batch can differ."""
    runs = [
        ConvexRecipe("test", "iris literal", ordering, "constant", 2, batch_fraction=1.0, keep=0.3).run(SEED)
        for ordering in ("descending", "random")
    ]
    np.testing.assert_allclose(runs[0]["loss"], runs[1]["loss"], rtol=1e-12)
    moving = [
        ConvexRecipe("test", "iris scaled", ordering, "1/(1+t)", 2, batch_fraction=1.0, keep=0.3).run(SEED)["loss"][-1]
        for ordering in ("descending", "random")
    ]
    assert moving[0] != moving[1]
    assert runs[0]["updates"].tolist() == runs[1]["updates"].tolist() == [0, 45, 90]


@pytest.mark.parametrize("name", ["synthetic", "iris scaled"])
def test_orderings_of_one_seed_share_data_start_and_warm_up(name):
    runs = [
        ConvexRecipe("test", name, ordering, "1/(1+t)", 5, warm_up=3, points_per_epoch=2).run(SEED)
        for ordering in ORDERINGS
    ]
    for rows in runs[1:]:
        assert rows["loss"][:7].tolist() == runs[0]["loss"][:7].tolist()
    assert len({rows["loss"][-1] for rows in runs}) > 3
    assert runs[0]["epoch"].tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]


def test_noting_more_points_changes_no_number():
    coarse, fine = (
        ConvexRecipe("test", "boston scaled", "descending", "1/(1+t)", 2, points_per_epoch=points).run(0)
        for points in (1, 5)
    )
    assert fine["loss"][::5].tolist() == coarse["loss"].tolist()


def test_runs_repeat_to_the_bit():
    for ordering in ORDERINGS:
        recipe = ConvexRecipe("test", "boston literal", ordering, "1/sqrt(1+t)", 2)
        first, second, other = (recipe.run(seed)["loss"].tolist() for seed in (0, 0, 1))
        assert first == second
        assert (first != other) == (ordering not in {"descending", "ascending"})

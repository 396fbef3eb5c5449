"""The arithmetic of the comparison, on rows written by hand."""

import numpy as np
import pytest

from gradorder_lab.benchmark.contest import COSTS, Contest, Standings, carry_out
from gradorder_lab.benchmark.methods import BASELINE, RECOMMENDED
from gradorder_lab.benchmark.task import Task
from gradorder_lab.show.standings import cheapest

TASK = Task("made up", "terrain", "2-layer", epochs=10, step_sizes=(0.1, 0.2))
PLAN = Contest(TASK, (BASELINE, RECOMMENDED), (0.5, 0.8, 1.0), seeds=3)


class Rows:
    """What the runs would have given: accuracy of (method, budget, seed)."""

    def __init__(self, accuracy, best_step=0.1, num_seeds=3):
        self.accuracy, self.best_step, self.asked, self.num_seeds = accuracy, best_step, [], num_seeds

    def rows(self, recipe):
        if recipe.validates:
            return {0: {"test_accuracy": np.array([90.0 if recipe.step_size == self.best_step else 80.0])}}
        cost = recipe.budget * (1.1 if recipe.method == RECOMMENDED else 1.0)
        return {
            seed: {"test_accuracy": np.array([self.accuracy(recipe.method, recipe.budget, seed)])}
            | {name: np.array([10 * cost + seed]) for name in COSTS}
            for seed in range(self.num_seeds)
        }

    def run_all(self, wanted):
        self.asked.append(wanted)


def accuracy(method, budget, seed):
    base = {BASELINE: {0.5: 88.0, 0.8: 89.9, 1.0: 90.0}, RECOMMENDED: {0.5: 90.0, 0.8: 90.5, 1.0: 90.2}}
    return base[method][budget] + 0.1 * (seed - 1)


def test_target_noise_and_cheapest_budgets():
    found = Standings.of(PLAN, Rows(accuracy))
    assert found.target == pytest.approx(90.0)
    # t of 2 degrees of freedom times the standard error of (89.9, 90, 90.1)
    assert found.noise == pytest.approx(4.30265 * 0.1 / np.sqrt(3), rel=1e-4)
    baseline, ours = found.rows
    assert baseline.budget == 0.8  # within noise of the target, and cheaper than 1.0
    assert ours.budget == 0.5
    assert baseline.ratios["trained"].mean == pytest.approx(1.0)
    assert ours.ratios["trained"].mean == pytest.approx(np.mean([(5.5 + s) / (8 + s) for s in range(3)]))


def test_not_reached_is_said():
    found = Standings.of(
        PLAN, Rows(lambda method, budget, seed: accuracy(BASELINE, budget, seed) - 5 * (method != BASELINE))
    )
    row = found.rows[1]
    assert row.budget is None
    assert row.ratios is None
    assert row.difference[0] == pytest.approx(-5)
    assert cheapest(found) == "No method reached the target for less than random reshuffling."


def test_accuracy_at_equal_time_lies_on_the_line_between_budgets():
    row = Standings.of(PLAN, Rows(accuracy)).rows[1]
    # random reshuffling takes 9 s (0.8: 8 + 1 on average); ours takes 6.5 s at 0.5 and 9.8 s at 0.8
    expected = 90.0 + (9 - 6.5) / (9.8 - 6.5) * 0.5
    assert row.equal_time[0] == pytest.approx(expected - 89.9)


def test_every_method_searches_the_same_and_takes_the_best_step():
    rows = Rows(accuracy, best_step=0.2)
    found = carry_out(PLAN, rows, rows.run_all)
    searched, run = rows.asked
    assert [(recipe.method, recipe.step_size, recipe.budget, recipe.validates) for recipe, _ in searched] == [
        (method, size, 0.7, True) for method in (BASELINE, RECOMMENDED) for size in (0.1, 0.2)
    ]
    assert {recipe.step_size for recipe, _ in run} == {0.2}
    assert all(row.step_size == 0.2 for row in found.rows)
    assert len(run) == 6


def test_the_verdict_names_the_winner_with_its_interval():
    told = cheapest(Standings.of(PLAN, Rows(accuracy)))
    assert told.startswith("recommended reached it in 0.72 of the time that random reshuffling takes (95% interval ")


def test_more_seeds_set_the_target_and_pairs_are_those_that_both_have():
    plan = Contest(TASK, (BASELINE, "shuffle once"), (0.5, 1.0), seeds=3, core_seeds=5)

    def of_seed(method, budget, seed):
        return 90.0 + (seed if method == BASELINE else 2 * seed) - 10 * (budget < 1)

    rows = Rows(of_seed, num_seeds=5)
    found = carry_out(plan, rows, rows.run_all)
    assert [seeds for _, seeds in rows.asked[1]] == [5, 5, 3, 3]
    assert found.target == 92.0  # the mean over five
    assert found.rows[1].accuracy == 92.0  # over three
    assert found.rows[1].difference[0] == 1.0  # 0, 1 and 2 points
    assert found.low_budget == 0.5
    assert found.rows[1].low_budget[0] == 1.0
    assert found.rows[0].low_budget == (0.0, 0.0, 0.0)

"""What is run to compare methods, on rows written by hand."""

from collections import Counter
from dataclasses import replace

import pytest
from benchmark_rows import row

from gradorder_lab.benchmark.contest import Contest, carry_out
from gradorder_lab.benchmark.task import Task
from gradorder_lab.methods import BASELINE, FIXED_BUDGET
from gradorder_lab.training.step_sizes import WIDEST, best_size, missing_sizes

TASK = Task("made up", "terrain", "2-layer", epochs=10, step_sizes=(0.1, 0.2))
PLAN = Contest(TASK, (BASELINE, "shuffle once"), (0.5, 0.8, 1.0), seeds=4)


class Runner:
    """Runs nothing, but has a row for what it was asked for: accuracy of (method, step size)."""

    def __init__(self, accuracy, costs=None):
        self.accuracy, self.costs, self.rows, self.asked = accuracy, costs or {}, [], []

    def found(self):
        return self.rows

    def run_all(self, wanted):
        self.asked.append(wanted)
        for recipe, seeds in wanted:
            accuracy = self.accuracy(recipe.method, recipe.step_size)
            settings = {"step_size": recipe.step_size, "validates": recipe.validates}
            settings["cost"] = self.costs.get(recipe.method, 1.0)
            self.rows += [row(recipe.method, recipe.budget, seed, accuracy, **settings) for seed in range(seeds)]


def test_every_method_starts_with_the_same_grid_and_widens_it_where_its_best_is_at_an_edge():
    best = {BASELINE: 0.8, "shuffle once": 0.025}
    runner = Runner(lambda method, size: -abs(size - best[method]))
    carry_out(PLAN, runner.found, runner.run_all)
    *searches, runs = runner.asked
    assert {(recipe.method, recipe.step_size) for recipe, _ in searches[0]} == {
        (method, size) for method in PLAN.methods for size in (0.1, 0.2)
    }
    searched = [(recipe.method, recipe.step_size) for wanted in searches for recipe, _ in wanted]
    assert max(Counter(searched).values()) == 1
    sizes = {method: sorted(size for name, size in searched if name == method) for method in PLAN.methods}
    assert sizes == {BASELINE: [0.1, 0.2, 0.4, 0.8, 1.6], "shuffle once": [0.0125, 0.025, 0.05, 0.1, 0.2]}
    assert all(recipe.validates and recipe.budget == 0.7 and seeds == 3 for w in searches for recipe, seeds in w)
    assert {(recipe.method, recipe.step_size) for recipe, _ in runs} == set(best.items())
    assert [recipe.budget for recipe, _ in runs] == [0.5, 0.8, 1.0] * 2
    assert not any(recipe.validates for recipe, _ in runs)
    assert {seeds for _, seeds in runs} == {4}


def test_the_search_ends_somewhere():
    upwards, downwards = Runner(lambda _, size: size), Runner(lambda _, size: -size)
    for runner in (upwards, downwards):
        carry_out(PLAN, runner.found, runner.run_all, search_only=True)
        assert not [recipe for wanted in runner.asked for recipe, _ in wanted if not recipe.validates]
    assert max(one.step_size for one in upwards.rows) == 0.2 * WIDEST
    assert min(one.step_size for one in downwards.rows) == 0.1 / WIDEST


def test_a_single_step_size_is_not_searched():
    assert missing_sizes((0.2,), {}) == []
    runner = Runner(lambda *_: 90.0)
    carry_out(Contest(Task("t", "terrain", "2-layer", 2, step_sizes=(0.3,)), (BASELINE,)), runner.found, runner.run_all)
    (runs,) = runner.asked
    assert {recipe.step_size for recipe, _ in runs} == {0.3}


def test_of_equal_step_sizes_the_smallest():
    assert best_size({0.2: 80.0, 0.1: 80.0, 0.05: 79.0}) == 0.1


def test_a_step_size_counts_when_all_its_seeds_are_there():
    rows = [row(BASELINE, 0.7, 0, step_size=size, validates=True) for size in TASK.step_sizes]
    assert {recipe.step_size for recipe, _ in PLAN.searches(rows)} == {0.1, 0.2}


def test_budgets_that_a_method_refuses_are_not_run():
    plan = Contest(TASK, (BASELINE, FIXED_BUDGET), (0.1, 0.2, 0.3, 1.0))
    assert plan.budgets_of(FIXED_BUDGET) == (0.3, 1.0)
    assert plan.budgets_of(BASELINE) == plan.budgets


def test_what_is_announced_is_what_is_run():
    runner = Runner(lambda _, size: -abs(size - 0.1) if size >= 0.1 else -9.0)
    carry_out(PLAN, runner.found, runner.run_all)
    searched, counting = PLAN.work()
    halved = 2 * 3  # 0.05, below the best of two, cannot be foreseen
    assert searched.number + halved == sum(one.validates for one in runner.rows)
    assert counting.number == sum(not one.validates for one in runner.rows)
    assert counting.cost == pytest.approx(sum(one.budget for one in runner.rows if not one.validates))
    assert PLAN.work(search_only=True)[1].number == 0


def test_what_costs_less_than_plain_training_is_run_longer_as_far_as_it_costs_no_more():
    methods = (BASELINE, "shuffle once", "incremental", "paired reversal")
    plan = Contest(TASK, methods, (0.5, 1.0), seeds=2)
    runner = Runner(
        lambda _, size: -abs(size - 0.1), {"shuffle once": 0.79, "incremental": 0.45, "paired reversal": 0.9}
    )
    carry_out(plan, runner.found, runner.run_all)
    *_, runs, longer = runner.asked
    assert {recipe.budget for recipe, _ in runs} == {0.5, 1.0}
    assert [(recipe.method, recipe.budget, recipe.step_size, seeds) for recipe, seeds in longer] == [
        ("shuffle once", 1.25, 0.1, 2),
        ("incremental", 1.25, 0.1, 2),
        ("incremental", 1.5, 0.1, 2),
        ("incremental", 2.0, 0.1, 2),
    ]
    asked = {run.identity for run in runner.rows}
    assert {run.identity for run in plan.part_of(runner.rows)} == asked


def test_passes_of_its_own_count_where_a_method_might_be_run_longer():
    rows = [
        row(name, 1.0, seed, cost=cost)
        for name, cost in ((BASELINE, 1.0), ("selective backprop", 0.6))
        for seed in (0, 1)
    ]
    task = replace(TASK, step_sizes=(0.1,))
    plan = Contest(task, (BASELINE, "selective backprop"), (1.0,), seeds=2)
    assert {recipe.budget for recipe, _ in plan.longer_runs(rows)} == {1.25, 1.5}
    scored = [replace(one, forward_passes=2 * 4000) if one.method != BASELINE else one for one in rows]
    assert plan.longer_runs(scored) == []  # (2 * 1 + 0.6 * 2) / 3 of plain training

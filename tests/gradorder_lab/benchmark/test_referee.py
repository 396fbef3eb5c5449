"""The referee's two questions, on rows written by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmark_rows import row
from scipy import stats

from gradorder_lab.benchmark.recipe import CompareRecipe, task_settings
from gradorder_lab.benchmark.referee import RANDOM_BUDGETS, EqualCost, Trial, judged, referee, trials_of
from gradorder_lab.benchmark.standings import Level
from gradorder_lab.benchmark.task import Task
from gradorder_lab.methods import BASELINE, RECOMMENDED

TASK = Task("made up", "terrain", "2-layer", epochs=10, step_sizes=(0.1, 0.2))
PLAIN = dict(zip(RANDOM_BUDGETS, (80.0, 84.0, 86.0, 88.0, 90.0), strict=True))
SEEDS = range(5)


def of_task(runs, task=TASK):
    settings = json.dumps(task_settings(task), sort_keys=True)
    return [replace(run, task=task.name, settings=settings, revision=CompareRecipe.revision, go="a") for run in runs]


def searches(method, best=0.1, seeds=3):
    return [
        row(method, 0.7, seed, 90.0 - 10 * abs(size - best), step_size=size, validates=True)
        for size in (0.05, 0.1, 0.2, 0.4)
        for seed in range(seeds)
    ]


def rows_of_random():
    counted = [row(BASELINE, budget, seed, found) for budget, found in PLAIN.items() for seed in SEEDS]
    return [*searches(BASELINE), *counted]


def rows_of(method, accuracies, cost, **settings):
    return [
        row(method, 1.0, seed, accuracy - 0.1 * (seed - 1), cost=cost, **settings)
        for seed, accuracy in enumerate(accuracies)
    ]


def trial_of(accuracies, cost=0.6):
    rows = [*rows_of_random(), *searches(RECOMMENDED), *rows_of(RECOMMENDED, accuracies, cost)]
    (trial,) = trials_of(TASK, of_task(rows))
    return trial


def test_differences_are_from_the_whole_run_and_from_a_run_of_the_same_cost():
    trial = trial_of([89.0, 89.2, 89.4, 89.1, 89.3])
    plain = 90 + 0.1 * (np.arange(5) - 1)
    ours = np.array([89.0, 89.2, 89.4, 89.1, 89.3])
    assert trial.differences == pytest.approx(ours - plain)
    assert trial.at_equal_cost == pytest.approx(ours - (plain - 4))  # 86 instead of 90 with 0.6 of the cost
    assert (trial.gradients, trial.cost, trial.time) == pytest.approx((0.6, 0.6, 0.6))
    low, high = stats.t.interval(0.95, 4, *((ours - plain).mean(), stats.sem(ours - plain)))
    assert (trial.difference.low, trial.difference.high) == pytest.approx((low, high))


def test_between_two_budgets_the_cost_is_interpolated_by_its_logarithm():
    trial = trial_of([88.0] * 5, cost=0.7)
    part = np.log(0.7 / 0.6) / np.log(0.8 / 0.6)
    assert trial.at_equal_cost[1] == pytest.approx(88 - (86 + 2 * part))


def test_the_test_loss_is_compared_where_accuracy_decides_too():
    rows = of_task([*rows_of_random(), *searches(RECOMMENDED), *rows_of(RECOMMENDED, [88.0] * 5, 0.6)])
    whole = [run for run in rows if run.method == BASELINE and run.budget == 1.0]
    losses = {run.seed: 0.4 + 0.1 * run.seed for run in whole}  # 0.6 on average
    changed = [replace(run, loss=losses[run.seed]) if run in whole else run for run in rows]
    (trial,) = trials_of(TASK, changed)  # ours is 0.3
    assert trial.losses == pytest.approx([-100 / 6, -200 / 6, -300 / 6, -400 / 6, -500 / 6])
    assert trial.loss.mean == pytest.approx(-50)


def test_times_of_two_goes_are_not_compared():
    rows = of_task([*rows_of_random(), *searches(RECOMMENDED), *rows_of(RECOMMENDED, [88.0] * 5, 0.6)])
    other = [replace(run, go="b") if run.method == RECOMMENDED else run for run in rows]
    (trial,) = trials_of(TASK, other)
    assert np.isnan(trial.time)
    assert trial.cost == pytest.approx(0.6)


def test_a_machine_that_stood_still_during_one_run_does_not_change_the_time():
    rows = of_task([*rows_of_random(), *searches(RECOMMENDED), *rows_of(RECOMMENDED, [88.0] * 5, 0.6)])
    still = [replace(run, wall_seconds=1e6) if (run.method, run.seed) == (BASELINE, 1) else run for run in rows]
    (before,), (after,) = trials_of(TASK, rows), trials_of(TASK, still)
    assert after.wall_time == pytest.approx(before.wall_time)
    plain = next(run for run in rows if run.method == BASELINE and run.budget == 1.0 and not run.validates)
    assert after.step_seconds == pytest.approx(plain.processor_seconds / plain.steps)


def test_without_all_runs_of_random_reshuffling_nothing_is_said():
    rows = [run for run in rows_of_random() if run.budget != 0.4]
    assert trials_of(TASK, of_task([*rows, *searches(RECOMMENDED), *rows_of(RECOMMENDED, [88.0] * 5, 0.6)])) == []


def test_a_search_that_is_not_over_says_nothing():
    assert trials_of(TASK, of_task(searches(BASELINE)[:2])) == []
    rows = [*rows_of_random(), *searches(RECOMMENDED)[:2]]
    assert trials_of(TASK, of_task(rows)) == []


def test_a_loss_is_compared_in_percent_and_a_smaller_one_is_better():
    task = replace(TASK, losses="gradorder:squared_error", data="own.npz")

    def as_loss(run, loss):
        return replace(run, accuracy=float("nan"), loss=loss)

    random = [as_loss(run, 1.0 / run.budget + abs(run.step_size - 0.1)) for run in rows_of_random()]
    ours = [as_loss(run, 0.9 + 0.01 * run.seed) for run in rows_of(RECOMMENDED, [0.0] * 5, 0.6)]
    searched = [as_loss(run, 1 + abs(run.step_size - 0.1)) for run in searches(RECOMMENDED)]
    (trial,) = trials_of(task, of_task([*random, *searched, *ours], task))
    assert trial.differences == pytest.approx([10, 9, 8, 7, 6])
    assert trial.step_size == 0.1
    assert task.margin == 1.0


def trial(name, differences, at_equal_cost=(0.0, 0.0, 0.0)):
    task = replace(TASK, name=name)
    seeds = np.array(differences), np.array(at_equal_cost), np.zeros(len(differences))
    return Trial(task, RECOMMENDED, 0.1, 0.6, 0.6, 0.6, 0.6, 0.001, *seeds)


def test_not_worse_worse_and_not_known_by_the_margin():
    found = judged([trial("a", [0.0, 0.01, 0.02]), trial("b", [-0.5, -0.51, -0.52]), trial("c", [-1.0, 0.0, 1.0])])
    assert found[RECOMMENDED].levels == {"a": Level.NOT_WORSE, "b": Level.WORSE, "c": Level.NOT_KNOWN}


def test_better_and_worse_than_a_shorter_run():
    zero = [0.0, 0.0, 0.0]
    found = judged([trial("a", zero, [1, 1.01, 1.02]), trial("b", zero, [-1, -1.01, -1.02]), trial("c", zero, zero)])
    assert found[RECOMMENDED].at_equal_cost == {
        "a": EqualCost.BETTER,
        "b": EqualCost.WORSE,
        "c": EqualCost.NOT_KNOWN,
    }


def test_one_task_among_many_needs_more_than_an_interval_of_its_own():
    """Holm's correction: an effect whose p-value is 0.04 is known alone, and not known among twenty tasks."""
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    shift = stats.t.ppf(0.98, 4) * stats.sem(values) - values.mean()
    one = trial("a", [0.0] * 5, values + shift)
    assert stats.ttest_1samp(one.at_equal_cost, 0).pvalue == pytest.approx(0.04)
    assert judged([one])[RECOMMENDED].at_equal_cost["a"] == EqualCost.BETTER
    rng = np.random.default_rng(0)
    others = [trial(str(number), [0.0] * 5, rng.standard_normal(5)) for number in range(19)]
    assert judged([one, *others])[RECOMMENDED].at_equal_cost["a"] == EqualCost.NOT_KNOWN


def test_a_run_that_diverged_is_worse():
    assert judged([trial("a", [0.0, 0.0, -np.inf])])[RECOMMENDED].levels["a"] == Level.WORSE


def test_a_method_keeps_random_s_learning_rate_unless_another_is_better_beyond_noise():
    contest = referee(TASK, (RECOMMENDED,))
    plain = searches(BASELINE, best=0.1)
    assert contest.step_size(RECOMMENDED, [*plain, *searches(RECOMMENDED, best=0.2)]) == 0.2
    noisy = [
        replace(run, accuracy=run.accuracy + 5 * (run.seed - 1) * (run.step_size == 0.2))
        for run in searches(RECOMMENDED, best=0.2)
    ]
    assert contest.step_size(RECOMMENDED, [*plain, *noisy]) == 0.1
    expensive = referee(replace(TASK, searches_methods=False), (RECOMMENDED,))
    assert expensive.step_size(RECOMMENDED, plain) == 0.1
    assert {recipe.method for recipe, _ in expensive.searches([])} == {BASELINE}


def test_every_other_method_is_run_once_per_seed():
    contest = referee(TASK, (RECOMMENDED,), seeds=7)
    found = [*searches(BASELINE), *searches(RECOMMENDED)]
    assert contest.searches(found) == []
    runs = [(recipe.method, recipe.budget, seeds) for recipe, seeds in contest.runs(found)]
    assert runs == [*((BASELINE, budget, 7) for budget in RANDOM_BUDGETS), (RECOMMENDED, 1.0, 7)]
    assert contest.longer_runs(found) == []

"""The referee: does a method end as well as random reshuffling, and better than a shorter run at the same cost?

Every method is trained once per seed, as published: its own rule over the epochs of plain training. Random reshuffling
is trained for the whole length and for shorter ones, each with its own complete schedule. Two questions follow:

1. Is the method not worse than random reshuffling's whole run, by more than the margin of the task?
2. Is it better than a run of random reshuffling with the same cost? Anybody can save cost by training for less time. A
   method is worth its name only if it ends better than that.

Differences are in points of accuracy; where there is no accuracy, in percent of random reshuffling's loss. Positive
differences favour the method. Costs count forward and backward passes of examples, also those of examples that are
only evaluated. Intervals are Student's 95% intervals over paired seeds. The answers use Holm's correction over the
tasks on which a method was run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import nan, sqrt

import numpy as np
from scipy import special

from gradorder_lab.benchmark.contest import Contest, suitable
from gradorder_lab.benchmark.curves import CostCurve
from gradorder_lab.benchmark.measure import LOSS
from gradorder_lab.benchmark.rows import BenchmarkRun, rows_of_task
from gradorder_lab.benchmark.standings import Level, Mean, accuracy_at
from gradorder_lab.benchmark.suites import EVERY
from gradorder_lab.benchmark.task import Task
from gradorder_lab.judge.claims import holm
from gradorder_lab.judge.effects import LEVEL
from gradorder_lab.methods import BASELINE, METHODS, REFEREE
from gradorder_lab.runs.recipe import Array
from gradorder_lab.training.network import CLOCK

RANDOM_BUDGETS = (0.25, 0.4, 0.6, 0.8, 1.0)
"""The lengths of random reshuffling's runs, as shares of the whole."""


class EqualCost(StrEnum):
    """A method against a run of random reshuffling with the same cost."""

    BETTER = "better than a shorter run"
    WORSE = "worse than a shorter run"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, eq=False)
class Trial:
    """One method on one task.

    Args:
        task: the task.
        method: its name.
        step_size: the learning rate.
        gradients: example gradients, as a share of random reshuffling's whole run.
        cost: all passes, as a share of it.
        time: processor time, as a share of it, the median over seeds; NaN if the two were not run in one go.
        wall_time: the same by the clock on the wall, which also counts other work of the machine.
        step_seconds: processor time of one step of random reshuffling, the median over seeds.
        differences: seed by seed, minus random reshuffling's whole run.
        at_equal_cost: seed by seed, minus random reshuffling with the same cost.
        losses: the test loss seed by seed, minus that of random reshuffling's whole run, in percent of it. No question
            is asked of it: an accuracy can be the same with worse probabilities.
    """

    task: Task
    method: str
    step_size: float
    gradients: float
    cost: float
    time: float
    wall_time: float
    step_seconds: float
    differences: Array
    at_equal_cost: Array
    losses: Array

    @property
    def difference(self) -> Mean:
        """From random reshuffling's whole run."""
        return Mean.of(self.differences)

    @property
    def advantage(self) -> Mean:
        """Over random reshuffling with the same cost."""
        return Mean.of(self.at_equal_cost)

    @property
    def loss(self) -> Mean:
        """The test loss, from random reshuffling's whole run: positive is worse."""
        return Mean.of(self.losses)


@dataclass(frozen=True, eq=False)
class Judgement:
    """The answers for all trials of one method, with Holm's correction over its tasks."""

    trials: tuple[Trial, ...]

    @cached_property
    def levels(self) -> Mapping[str, Level]:
        """Task -> is it not worse than random reshuffling's whole run?"""
        found = {trial.task.name: (trial.differences + trial.task.margin) for trial in self.trials}
        return {
            task: Level.NOT_KNOWN if sign is None else Level.NOT_WORSE if sign > 0 else Level.WORSE
            for task, sign in _signs(found).items()
        }

    @cached_property
    def at_equal_cost(self) -> Mapping[str, EqualCost]:
        """Task -> is it better than a shorter run?"""
        found = {trial.task.name: trial.at_equal_cost for trial in self.trials}
        return {
            task: EqualCost.NOT_KNOWN if sign is None else EqualCost.BETTER if sign > 0 else EqualCost.WORSE
            for task, sign in _signs(found).items()
        }


def _signs(found: Mapping[str, Array]) -> dict[str, int | None]:
    """The sign of each mean; None where it is not known, by Student's t-test and Holm's correction over all."""
    needed = {name: _left_out(values) for name, values in found.items()}
    allowed = holm(needed, 1 - LEVEL)
    return {
        name: int(np.sign(values.mean())) if needed[name] <= allowed[name] else None for name, values in found.items()
    }


def _left_out(values: Array) -> float:
    """The two-sided p-value of the mean against 0."""
    if len(values) < 2 or np.isnan(values).any():  # noqa: PLR2004 - one value has no spread
        return 1.0
    if np.isneginf(values).any():  # a run of the method diverged
        return 0.0
    spread = float(values.std(ddof=1))
    if spread == 0:
        return 1.0 if values.mean() == 0 else 0.0
    statistic = abs(float(values.mean())) / (spread / sqrt(len(values)))
    return float(2 * special.stdtr(len(values) - 1, -statistic))


def referee(task: Task, methods: Iterable[str] = REFEREE, seeds: int | None = None) -> Contest:
    """Plan the runs of a task."""
    wanted = dict.fromkeys((BASELINE, *methods))
    return Contest(
        task, tuple(suitable(wanted, task)), budgets=RANDOM_BUDGETS, seeds=seeds or task.seeds, one_run_each=True
    )


def trials_of(task: Task, rows: Sequence[BenchmarkRun]) -> list[Trial]:
    """Return the trials of every method that was run on the task, by the seeds that random reshuffling has, too."""
    contest = referee(task, METHODS)
    found = contest.part_of(rows_of_task(task, rows))
    random = _runs(contest, BASELINE, found)
    if set(RANDOM_BUDGETS) - set(random):
        return []
    methods = [name for name in contest.methods if name != BASELINE]
    trials = [_trial(contest, name, _runs(contest, name, found), random, found) for name in methods]
    return [trial for trial in trials if trial is not None]


def all_trials(rows: Sequence[BenchmarkRun], tasks: Iterable[Task] = EVERY) -> list[Trial]:
    """Return the trials of all tasks, in the order of the tasks."""
    return [trial for task in tasks for trial in trials_of(task, rows)]


def judged(trials: Iterable[Trial]) -> dict[str, Judgement]:
    """Return method -> its judgement."""
    by_method: dict[str, list[Trial]] = {}
    for trial in trials:
        by_method.setdefault(trial.method, []).append(trial)
    return {method: Judgement(tuple(found)) for method, found in by_method.items()}


_Runs = dict[float, dict[int, BenchmarkRun]]
"""Budget -> seed -> run."""


def _runs(contest: Contest, method: str, found: Sequence[BenchmarkRun]) -> _Runs:
    counted = [run for run in found if run.method == method and not run.validates]
    if not counted:  # its search may not be over
        return {}
    size = contest.step_size(method, found)
    runs: _Runs = {}
    for run in counted:
        if run.step_size == size:
            runs.setdefault(run.budget, {})[run.seed] = run
    return runs


def _trial(contest: Contest, method: str, ours: _Runs, random: _Runs, found: Sequence[BenchmarkRun]) -> Trial | None:
    whole = ours.get(1.0, {})
    seeds = sorted(set(whole).intersection(*(set(of_seed) for of_seed in random.values())))
    if not seeds:
        return None
    runs, plain = [whole[seed] for seed in seeds], [random[1.0][seed] for seed in seeds]
    goodness = np.array([run.goodness for run in runs])
    full = np.array([run.goodness for run in plain])
    work = float(np.mean([run.work for run in runs]))
    scale = 100 / abs(float(full.mean())) if runs[0].measure == LOSS else 1.0
    curve = CostCurve(
        np.array([[random[budget][seed].goodness for seed in seeds] for budget in RANDOM_BUDGETS]),
        np.array([[random[budget][seed].work for seed in seeds] for budget in RANDOM_BUDGETS]),
    )
    return Trial(
        contest.task,
        method,
        contest.step_size(method, found),
        _share(runs, plain, "example_gradients"),
        _share(runs, plain, "work"),
        _time(runs, plain, CLOCK),
        _time(runs, plain, "wall_seconds"),
        float(np.median([run.processor_seconds / run.steps for run in plain])),
        scale * (goodness - full),
        scale * (goodness - accuracy_at(work, curve)),
        _losses(runs, plain),
    )


def _losses(runs: Sequence[BenchmarkRun], plain: Sequence[BenchmarkRun]) -> Array:
    ours, theirs = (np.array([run.loss for run in some]) for some in (runs, plain))
    percent: Array = 100 * (ours - theirs) / theirs.mean()
    return percent


def _share(runs: Sequence[BenchmarkRun], plain: Sequence[BenchmarkRun], cost: str) -> float:
    ours, theirs = (sum(getattr(run, cost) for run in some) for some in (runs, plain))
    return float(ours / theirs)


def _time(runs: Sequence[BenchmarkRun], plain: Sequence[BenchmarkRun], clock: str) -> float:
    """The median over seeds: a machine that stands still during one run does not count."""
    if not _in_one_go(runs, plain):
        return nan
    return float(np.median([getattr(a, clock) / getattr(b, clock) for a, b in zip(runs, plain, strict=True)]))


def _in_one_go(runs: Sequence[BenchmarkRun], plain: Sequence[BenchmarkRun]) -> bool:
    """Whether the two runs of every seed were made by one invocation, so that their times can be compared."""
    return all(ours.go == theirs.go != "" for ours, theirs in zip(runs, plain, strict=True))

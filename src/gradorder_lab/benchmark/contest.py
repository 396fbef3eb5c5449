"""Which method reaches plain training's accuracy at what cost: search the step sizes, run paired seeds, compare.

The same for every method: the step size is searched on a held-out part of the training set at one budget, then every
budget is run with every seed. The target is the mean test accuracy of random reshuffling at the full budget, less its
noise (the half-width of the 95% interval of that mean). A method has reached it at its cheapest budget whose mean is
not below that, random reshuffling like all others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gradorder_lab.benchmark.methods import BASELINE, CORE
from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.task import Task
from gradorder_lab.judge.statistics import interval
from gradorder_lab.runs.recipe import Array, Recipe, Rows

COSTS = ("processor_seconds", "seconds", "trained", "forward")
CLOCK = "processor_seconds"
"""Runs have one thread each: its processor time is the wall-clock time of a machine that does nothing else."""

_HALF = 0.5


class Rowed(Protocol):
    """Where rows are kept; `gradorder_lab.runs.store.Store` is one."""

    def rows(self, recipe: Recipe) -> Mapping[int, Rows]:
        """By seed."""


RunAll = Callable[[Sequence[tuple[Recipe, int]]], None]
"""Run each recipe with each number of seeds, unless it is there already."""


@dataclass(frozen=True)
class Contest:
    """How methods are compared on a task.

    Args:
        task: the task.
        methods: names; the first is random reshuffling.
        budgets: shares of plain training's cost; 1.0 among them.
        seeds: paired.
        core_seeds: of random reshuffling, which sets the target, and the other methods of `CORE`; `seeds` if not given.
        search_budget: the budget at which step sizes are searched.
        search_seeds: for each step size.
    """

    task: Task
    methods: tuple[str, ...]
    budgets: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8, 1.0)
    seeds: int = 5
    core_seeds: int | None = None
    search_budget: float = 0.7
    search_seeds: int = 1

    def searched(self, method: str, step_size: float) -> CompareRecipe:
        """A run of the search."""
        return CompareRecipe.of(self.task, method, step_size, self.search_budget, validates=True)

    def searches(self) -> list[tuple[Recipe, int]]:
        """Every run of the search."""
        sizes = self.task.step_sizes
        if len(sizes) == 1:
            return []
        return [(self.searched(method, size), self.search_seeds) for method in self.methods for size in sizes]

    def step_size(self, method: str, store: Rowed) -> float:
        """The one with the best held-out accuracy; of equal ones the smallest."""
        sizes = self.task.step_sizes
        if len(sizes) == 1:
            return sizes[0]
        return max(sizes, key=lambda size: (_mean(store, self.searched(method, size), self.search_seeds), -size))

    def recipe(self, method: str, budget: float, store: Rowed) -> CompareRecipe:
        """A run that counts."""
        return CompareRecipe.of(self.task, method, self.step_size(method, store), budget)

    def runs(self, store: Rowed) -> list[tuple[Recipe, int]]:
        """Every run that counts, once the search is over."""
        return [
            (self.recipe(method, budget, store), self.seeds_of(method))
            for method in self.methods
            for budget in self.budgets
        ]

    def seeds_of(self, method: str) -> int:
        """How often this method is run at each budget."""
        return self.core_seeds or self.seeds if method in CORE else self.seeds

    @property
    def low_budget(self) -> float:
        """The budget nearest to a half."""
        return min(self.budgets, key=lambda budget: abs(budget - _HALF))


def carry_out(contest: Contest, store: Rowed, run_all: RunAll) -> "Standings":
    """Search, run, compare."""
    run_all(contest.searches())
    run_all(contest.runs(store))
    return Standings.of(contest, store)


@dataclass(frozen=True, eq=False)
class Runs:
    """One method at one budget: a number for each seed."""

    budget: float
    accuracy: Array
    costs: Mapping[str, Array]


@dataclass(frozen=True)
class Ratio:
    """A cost over random reshuffling's at the target, with its 95% interval over paired seeds."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: Array, theirs: Array) -> "Ratio":
        """Paired, over the seeds that both have."""
        num_seeds = min(len(ours), len(theirs))
        ratios = ours[:num_seeds] / theirs[:num_seeds]
        return cls(float(ratios.mean()), *interval(ratios))


@dataclass(frozen=True, eq=False)
class Row:
    """One method in the table.

    Args:
        method: its name.
        step_size: what the search chose.
        budget: the cheapest at which the target was reached; None where it was not.
        ratios: cost to the target over random reshuffling's; None where it was not reached.
        accuracy: mean final accuracy at that budget, else at the largest.
        difference: accuracy minus random reshuffling's at the full budget, paired, with its interval.
        equal_time: accuracy minus random reshuffling's, both at the time that random reshuffling takes to the target.
        low_budget: accuracy minus random reshuffling's, both at the contest's low budget.
    """

    method: str
    step_size: float
    budget: float | None
    ratios: Mapping[str, Ratio] | None
    accuracy: float
    difference: tuple[float, float, float]
    equal_time: tuple[float, float, float]
    low_budget: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Standings:
    """All methods on one task; `low_budget` is the contest's."""

    task: Task
    low_budget: float
    target: float
    noise: float
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, contest: Contest, store: Rowed) -> "Standings":
        """From finished runs."""
        found = {
            method: [_runs(contest, method, budget, store) for budget in contest.budgets] for method in contest.methods
        }
        full = max(found[BASELINE], key=lambda runs: runs.budget)
        target = float(full.accuracy.mean())
        noise = target - interval(full.accuracy)[0] if len(full.accuracy) > 1 else 0.0
        baseline = _cheapest(found[BASELINE], target - noise) or full
        low = {method: next(r for r in runs if r.budget == contest.low_budget) for method, runs in found.items()}
        rows = [
            _row(
                method,
                contest.step_size(method, store),
                runs,
                full,
                baseline,
                target - noise,
                _difference(low[method].accuracy, low[BASELINE].accuracy),
            )
            for method, runs in found.items()
        ]
        return cls(contest.task, contest.low_budget, target, noise, tuple(rows))


def _row(  # noqa: PLR0917
    method: str,
    step_size: float,
    found: Sequence[Runs],
    full: Runs,
    baseline: Runs,
    goal: float,
    at_low_budget: tuple[float, float, float],
) -> Row:
    reached = _cheapest(found, goal)
    shown = reached or max(found, key=lambda runs: runs.budget)
    ratios = None
    if reached is not None:
        ratios = {name: Ratio.of(reached.costs[name], baseline.costs[name]) for name in COSTS}
    at_equal_time = _accuracy_at(found, float(baseline.costs[CLOCK].mean()))
    return Row(
        method,
        step_size,
        None if reached is None else reached.budget,
        ratios,
        float(shown.accuracy.mean()),
        _difference(shown.accuracy, full.accuracy),
        _difference(at_equal_time, baseline.accuracy),
        at_low_budget,
    )


def _cheapest(found: Sequence[Runs], goal: float) -> Runs | None:
    """The budget with the least time among those that reach the goal."""
    reached = [runs for runs in found if runs.accuracy.mean() >= goal]
    return min(reached, key=lambda runs: runs.costs[CLOCK].mean(), default=None)


def _accuracy_at(found: Sequence[Runs], seconds: float) -> Array:
    """Each seed's accuracy at a time, on the line between the two budgets around it; the nearest beyond them."""
    ordered = sorted(found, key=lambda runs: runs.costs[CLOCK].mean())
    times = [float(runs.costs[CLOCK].mean()) for runs in ordered]
    accuracies = np.array([runs.accuracy for runs in ordered])
    return np.array([np.interp(seconds, times, of_seed) for of_seed in accuracies.T])


def _difference(ours: Array, theirs: Array) -> tuple[float, float, float]:
    """Paired, over the seeds that both have."""
    num_seeds = min(len(ours), len(theirs))
    differences = ours[:num_seeds] - theirs[:num_seeds]
    return float(differences.mean()), *interval(differences)


def _runs(contest: Contest, method: str, budget: float, store: Rowed) -> Runs:
    by_seed = store.rows(contest.recipe(method, budget, store))
    rows = [by_seed[seed] for seed in range(contest.seeds_of(method))]
    costs = {name: np.array([row[name][-1] for row in rows]) for name in COSTS}
    return Runs(budget, np.array([_goodness(contest.task, row) for row in rows]), costs)


def _mean(store: Rowed, recipe: CompareRecipe, seeds: int) -> float:
    by_seed = store.rows(recipe)
    return float(np.mean([_goodness(recipe.task, by_seed[seed]) for seed in range(seeds)]))


def _goodness(task: Task, row: Rows) -> float:
    return task.measure.goodness(float(row[f"test_{task.measure.name}"][-1]))

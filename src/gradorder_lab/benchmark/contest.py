"""What is run to compare methods on a task: the search for step sizes, then every budget with paired seeds.

The same for every method. The step size is searched on a held-out part of the training set at one budget. All start
with the task's grid, and a best one at an edge of it widens it there, by doubling or halving. A task with a single step
size is run with that.

A budget is the length of a run, in runs of plain training. A method that leaves examples out costs less than that: it
is run longer, too, as far as it then costs no more than plain training. So every curve ends near the same cost.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.rows import BenchmarkRun, searched
from gradorder_lab.benchmark.task import Task
from gradorder_lab.errors import LabError
from gradorder_lab.judge.effects import interval
from gradorder_lab.methods import BASELINE, named
from gradorder_lab.training.method import Circumstances
from gradorder_lab.training.step_sizes import best_size, missing_sizes

BUDGETS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
LONGER = (1.25, 1.5, 2.0)
"""Budgets of methods that cost so much less than plain training."""

SEARCH_BUDGET = 0.7
"""At which step sizes are searched."""

Wanted = list[tuple[CompareRecipe, int]]
"""Recipes, each with a number of seeds."""


@dataclass(frozen=True)
class Work:
    """How many runs, and what they cost together, in runs of plain training."""

    number: int
    cost: float


@dataclass(frozen=True)
class Contest:
    """How methods are compared on a task.

    Args:
        task: the task.
        methods: names; random reshuffling among them.
        budgets: shares of plain training's cost; 1.0 among them.
        seeds: paired.
        search_seeds: for each step size; one seed's noise is as large as what two neighbours differ by.
        one_run_each: every other method is run once per seed, at its own length. It has the learning rate of random
            reshuffling, unless another one is better on the held-out part beyond noise.
    """

    task: Task
    methods: tuple[str, ...]
    budgets: tuple[float, ...] = BUDGETS
    seeds: int = 10
    search_seeds: int = 3
    one_run_each: bool = False

    def searches(self, found: Sequence[BenchmarkRun]) -> Wanted:
        """What is to be run before the step sizes are known; nothing when they are."""
        return [
            (CompareRecipe.of(self.task, method, size, SEARCH_BUDGET, validates=True), self.search_seeds)
            for method in self.methods
            if method == BASELINE or self.task.searches_methods
            for size in self._missing_sizes(method, found)
        ]

    def _missing_sizes(self, method: str, found: Sequence[BenchmarkRun]) -> list[float]:
        """The sizes that the search of a method needs next; in the end also random reshuffling's, to compare with."""
        means, random = self._means(method, found), self._means(BASELINE, found)
        if sizes := missing_sizes(self.task.step_sizes, means):
            return sizes
        is_compared = self.one_run_each and not missing_sizes(self.task.step_sizes, random)
        return [size for size in [best_size(random)] if size not in means] if is_compared and random else []

    def runs(self, found: Sequence[BenchmarkRun]) -> Wanted:
        """Every run that counts, once the search is over."""
        return [
            (CompareRecipe.of(self.task, method, self.step_size(method, found), budget), self.seeds)
            for method in self.methods
            for budget in self.budgets_of(method)
        ]

    def longer_runs(self, found: Sequence[BenchmarkRun]) -> Wanted:
        """Once the others are there: longer ones of the methods that then still cost no more than plain training."""
        if self.one_run_each:
            return []
        plain = self._work_of(BASELINE, found)
        return [
            (CompareRecipe.of(self.task, method, self.step_size(method, found), budget), self.seeds)
            for method in self.methods
            for budget in LONGER
            if budget * self._work_of(method, found) <= plain
        ]

    def _work_of(self, method: str, found: Sequence[BenchmarkRun]) -> float:
        """Mean over seeds of what its run at the full budget took, passes of its own included."""
        size = self.step_size(method, found)
        runs = [run for run in self.part_of(found) if (run.method, run.budget, run.step_size) == (method, 1.0, size)]
        return float(np.mean([run.work for run in runs if not run.validates]))

    def step_size(self, method: str, found: Sequence[BenchmarkRun]) -> float:
        """The one that the search chose."""
        if len(self.task.step_sizes) == 1:
            return self.task.step_sizes[0]
        if not self.one_run_each:
            return best_size(self._means(method, found))
        random = best_size(self._means(BASELINE, found))
        tried = self._searched(method, found) if self.task.searches_methods else {}
        if not tried:
            return random
        best = best_size({size: float(np.mean(of_seeds)) for size, of_seeds in tried.items()})
        is_better = best != random and interval(np.array(tried[best]) - np.array(tried[random]))[0] > 0
        return best if is_better else random

    def budgets_of(self, method: str) -> tuple[float, ...]:
        """Those that the method accepts: a fixed budget cannot be less than its complete epochs.

        Raises:
            LabError: not even the largest.
        """
        if error := refusal(self.task, method, max(self.budgets)):
            raise LabError(f"{method} cannot be run on {self.task.name}: {error}") from error
        if self.one_run_each and method != BASELINE:
            return (1.0,)
        return tuple(budget for budget in self.budgets if refusal(self.task, method, budget) is None)

    def part_of(self, runs: Iterable[BenchmarkRun]) -> list[BenchmarkRun]:
        """Those that belong to it, of all that a directory may hold: other methods, budgets, seeds and step sizes."""
        of_methods = [run for run in runs if run.method in self.methods]
        if len(self.task.step_sizes) == 1:
            of_methods = [run for run in of_methods if not run.validates and run.step_size == self.task.step_sizes[0]]
        budgets = (*self.budgets, *LONGER)
        return [
            run
            for run in of_methods
            if run.seed < (self.search_seeds if run.validates else self.seeds)
            and run.budget in ([SEARCH_BUDGET] if run.validates else budgets)
        ]

    def work(self, *, search_only: bool = False) -> tuple[Work, Work]:
        """What the search takes if no grid is widened, and what the rest takes without longer runs."""
        sizes = len(self.task.step_sizes)
        num_searches = len(self.methods) if self.task.searches_methods else 1
        number = 0 if sizes == 1 else num_searches * sizes * self.search_seeds
        budgets = [] if search_only else [budget for method in self.methods for budget in self.budgets_of(method)]
        return Work(number, number * SEARCH_BUDGET), Work(len(budgets) * self.seeds, sum(budgets) * self.seeds)

    def _means(self, method: str, found: Sequence[BenchmarkRun]) -> dict[float, float]:
        """Held-out accuracy of every step size that was run with all seeds."""
        return {size: float(np.mean(of_seeds)) for size, of_seeds in self._searched(method, found).items()}

    def _searched(self, method: str, found: Sequence[BenchmarkRun]) -> dict[float, list[float]]:
        """Step size -> held-out accuracy of each seed, where all seeds were run."""
        runs = sorted((run for run in self.part_of(found) if run.method == method), key=lambda run: run.seed)
        return {size: of_seeds for size, of_seeds in searched(runs).items() if len(of_seeds) == self.search_seeds}


def suitable(methods: Iterable[str], task: Task) -> list[str]:
    """Those that can be run on it: without classes, none that balances them or looks at logits."""
    return [name for name in methods if task.has_classes or not named(name).needs_classes]


def refusal(task: Task, method: str, budget: float) -> ValueError | None:
    """Why a method cannot do with this budget; None where it can."""
    if not suitable([method], task):
        return ValueError(f"it needs classes, and {task.name} has none")
    try:
        named(method).build(Circumstances(torch.arange(task.batch_size), task.batch_size, task.epochs, budget, seed=0))
    except ValueError as error:
        return error
    return None


def carry_out(
    contest: Contest,
    found: Callable[[], Sequence[BenchmarkRun]],
    run_all: Callable[[Wanted], None],
    *,
    search_only: bool = False,
) -> None:
    """Search, then run; `found` gives what has been run so far."""
    while wanted := contest.searches(found()):
        run_all(wanted)
    if not search_only:
        run_all(contest.runs(found()))
        if longer := contest.longer_runs(found()):
            run_all(longer)

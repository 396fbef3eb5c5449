"""All methods on one task, from the rows alone: what each saves at the target, and its accuracy at the same cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, nan
from typing import Self

import numpy as np

from gradorder_lab.benchmark.curves import UNKNOWN_SAVING, CostCurve, Saving, saving
from gradorder_lab.benchmark.measure import Measure
from gradorder_lab.benchmark.rows import BenchmarkRun, searched
from gradorder_lab.errors import LabError
from gradorder_lab.judge.effects import interval
from gradorder_lab.methods import BASELINE
from gradorder_lab.runs.recipe import Array
from gradorder_lab.training.network import CLOCK
from gradorder_lab.training.step_sizes import best_size

GRADIENTS = "example_gradients"
CLOCKS = (CLOCK, "wall_seconds")
COSTS = (GRADIENTS, CLOCK, "forward_passes", "wall_seconds")
_FULL_BUDGET = 1.0
_HALF_BUDGET = 0.5


@dataclass(frozen=True)
class Mean:
    """Over seeds, with its 95% interval (Student's t); NaN where nothing was run."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: Array) -> Self:
        """From one number for each seed."""
        return cls(float(numbers.mean()), *interval(numbers))


class Level(StrEnum):
    """What an interval says of a difference from random reshuffling, by a margin."""

    NOT_WORSE = "not worse by more than the margin"
    WORSE = "worse by more than the margin"
    NOT_KNOWN = "not known"

    @classmethod
    def of(cls, difference: Mean, margin: float) -> "Level":
        """By the ends of the interval alone: the absence of evidence is not known."""
        if difference.low > -margin:
            return cls.NOT_WORSE
        return cls.WORSE if difference.high < -margin else cls.NOT_KNOWN


@dataclass(frozen=True)
class Point:
    """One budget of a method's curve.

    Args:
        budget: as it was asked for.
        share: example gradients, of plain training's.
        seconds: of the processor, mean.
        accuracy: over seeds.
    """

    budget: float
    share: float
    seconds: float
    accuracy: Mean


@dataclass(frozen=True, eq=False)
class Standing:
    """One method in the table.

    Args:
        method: its name.
        step_size: what the search chose.
        is_at_edge: it is the largest or smallest that was tried.
        savings: kind of cost -> cost to the target as a share of random reshuffling's; unknown for time, where the two
            were not timed together.
        spent: kind of cost -> that of the run at the full budget, as a share of random reshuffling's; NaN for time,
            where the two were not timed together.
        accuracy: mean at the full budget.
        difference: accuracy minus random reshuffling's, both at the full budget.
        at_half: accuracy minus random reshuffling's, both with half of the gradients of plain training at most.
        curve: cost and accuracy at each budget, the smallest first.
        num_seeds: paired.
        has_goes: whether its times are of one go; otherwise only commit and the processor's name are known to agree.
    """

    method: str
    step_size: float
    is_at_edge: bool
    savings: Mapping[str, Saving]
    spent: Mapping[str, float]
    accuracy: float
    difference: Mean
    at_half: Mean
    curve: tuple[Point, ...]
    num_seeds: int
    has_goes: bool


@dataclass(frozen=True, eq=False)
class Standings:
    """All methods on one task; those that were run at too few budgets or seeds to say anything are left out.

    Where runs are judged by their loss, all that is called accuracy is its negative: the larger, the better.

    Args:
        task: its name.
        full: mean accuracy of random reshuffling at the full budget.
        margin: what still counts as that.
        rows: one for each method.
        noise: standard deviation over seeds of random reshuffling's accuracy at the full budget; NaN of one seed.
        step_size: random reshuffling's.
        measure: what runs are judged by.
    """

    task: str
    full: float
    margin: float
    rows: tuple[Standing, ...]
    noise: float
    step_size: float
    measure: Measure

    @property
    def target(self) -> float:
        """The accuracy to reach."""
        return self.full - self.margin

    @property
    def is_noisy(self) -> bool:
        """Whether seeds differ by more than a point of accuracy, or a percent of the loss."""
        return self.noise > self.measure.margin(self.full, 1.0)

    def level(self, row: Standing) -> Level:
        """Whether a method ends worse than random reshuffling after as many epochs."""
        return Level.of(row.difference, self.margin)

    def row(self, method: str) -> Standing | None:
        """Of this method; None where it has not been run."""
        return next((row for row in self.rows if row.method == method), None)

    @classmethod
    def of(cls, task: str, margin: float, runs: Sequence[BenchmarkRun], costs: Sequence[str] = COSTS) -> Self:
        """From the rows of this task; others are not looked at. Savings are computed for these costs.

        Raises:
            LabError: random reshuffling has not been run at the full budget, or has diverged there.
        """
        of_task = [run for run in runs if run.task == task]
        names = dict.fromkeys([BASELINE, *(run.method for run in of_task)])
        methods = {name: _Results.of([run for run in of_task if run.method == name]) for name in names}
        random = methods.get(BASELINE)
        if random is None or not random.is_full:
            raise LabError(f"{task}: {BASELINE} has not been run at the full budget, and it sets the target")
        if not np.isfinite(random.table(random.seeds, "loss")[random.full]).all():
            raise LabError(
                f"{task}: {BASELINE} diverged, its loss is not finite at the end of the full budget with step size "
                f"{random.step_size:g}, and it sets the target: give a smaller --step-size"
            )
        of_seeds = random.table(random.seeds, "goodness")[random.full]
        full, noise = float(of_seeds.mean()), float(of_seeds.std(ddof=1)) if len(of_seeds) > 1 else nan
        measure = of_task[0].measure
        margin = measure.margin(full, margin)
        rows = [_standing(name, found, random, margin, costs) for name, found in methods.items() if found is not None]
        return cls(task, full, margin, tuple(row for row in rows if row is not None), noise, random.step_size, measure)


@dataclass(frozen=True, eq=False)
class _Results:
    """The runs of one method that count, those with the step size that the search chose."""

    step_size: float
    is_at_edge: bool
    runs: Mapping[tuple[float, int], BenchmarkRun]

    @classmethod
    def of(cls, runs: Sequence[BenchmarkRun]) -> "_Results | None":
        tried = searched(runs)
        counting = [run for run in runs if not run.validates]
        if tried:
            most = max(map(len, tried.values()))
            size = best_size({size: float(np.mean(all_)) for size, all_ in tried.items() if len(all_) == most})
            counting = [run for run in counting if run.step_size == size]
        if not counting:
            return None
        size = counting[0].step_size
        is_at_edge = size in {min(tried), max(tried)} if tried else False
        return cls(size, is_at_edge, _with_whole_longer_budgets({(run.budget, run.seed): run for run in counting}))

    @property
    def budgets(self) -> list[float]:
        return sorted({budget for budget, _ in self.runs})

    @property
    def is_full(self) -> bool:
        """Whether the full budget has been run; longer ones may follow it."""
        return _FULL_BUDGET in self.budgets

    @property
    def full(self) -> int:
        """The place of the full budget among the budgets."""
        return self.budgets.index(_FULL_BUDGET)

    @property
    def seeds(self) -> list[int]:
        """Those that every budget has."""
        all_seeds = sorted({seed for _, seed in self.runs})
        return [seed for seed in all_seeds if all((budget, seed) in self.runs for budget in self.budgets)]

    def table(self, seeds: Sequence[int], column: str) -> Array:
        """Budgets down, these seeds across."""
        return np.array(
            [[getattr(self.runs[budget, seed], column) for seed in seeds] for budget in self.budgets], dtype=np.float64
        )

    def curve(self, seeds: Sequence[int], cost: str) -> CostCurve:
        return CostCurve(self.table(seeds, "goodness"), self.table(seeds, cost))

    @property
    def full_runs(self) -> "_Results":
        """Those at the full budget."""
        return replace(self, runs={one: run for one, run in self.runs.items() if one[0] == _FULL_BUDGET})

    def is_timed_with(self, other: "_Results") -> bool:
        """Whether all runs of a seed, of both methods, were made in one go.

        Other clocks do not compare: neither between the methods, nor between the budgets of one curve. Rows of before
        goes were named are compared if commit and processor are the same; `has_goes` tells them apart.
        """
        origins: dict[int, set[tuple[str, ...]]] = {}
        for (_, seed), run in (*self.runs.items(), *other.runs.items()):
            origins.setdefault(seed, set()).add((run.go,) if run.go else (run.commit, run.machine))
        both = set(self.seeds) & set(other.seeds)
        return all(len(origins[seed]) == 1 for seed in both)

    @property
    def has_goes(self) -> bool:
        """Whether every run names the go that it was made in."""
        return all(run.go for run in self.runs.values())


def _with_whole_longer_budgets(runs: Mapping[tuple[float, int], BenchmarkRun]) -> dict[tuple[float, int], BenchmarkRun]:
    """Without longer budgets that not all seeds have been run at: they must not cost the others seeds."""
    seeds = {seed for budget, seed in runs if budget == _FULL_BUDGET}
    partial = {
        budget for budget, _ in runs if budget > _FULL_BUDGET and any((budget, seed) not in runs for seed in seeds)
    }
    return {(budget, seed): run for (budget, seed), run in runs.items() if budget not in partial}


def _standing(name: str, found: _Results, random: _Results, margin: float, costs: Sequence[str]) -> Standing | None:
    seeds = sorted(set(found.seeds) & set(random.seeds))
    if not seeds or not found.is_full:
        return None
    curves = {cost: (found.curve(seeds, cost), random.curve(seeds, cost)) for cost in COSTS}
    ours, theirs = curves[GRADIENTS]
    whole = float(theirs.cost[random.full].mean())
    at_half = accuracy_at(_HALF_BUDGET * whole, ours) - accuracy_at(_HALF_BUDGET * whole, theirs)
    seconds = curves[CLOCK][0].cost
    points = [
        Point(budget, float(cost.mean()) / whole, float(taken.mean()), Mean.of(accuracy))
        for budget, cost, taken, accuracy in zip(found.budgets, ours.cost, seconds, ours.accuracy, strict=True)
    ]
    savings = {cost: saving(*curves[cost], margin) for cost in costs}
    spent = {cost: float(a.cost[found.full].mean() / b.cost[random.full].mean()) for cost, (a, b) in curves.items()}
    if not found.full_runs.is_timed_with(random.full_runs):
        spent |= dict.fromkeys(CLOCKS, nan)
    if not found.is_timed_with(random):
        savings |= {cost: UNKNOWN_SAVING for cost in costs if cost in CLOCKS}
    return Standing(
        name,
        found.step_size,
        found.is_at_edge,
        savings,
        spent,
        points[found.full].accuracy.mean,
        Mean.of(ours.accuracy[found.full] - theirs.accuracy[random.full]),
        Mean.of(at_half),
        tuple(points),
        len(seeds),
        found.has_goes and random.has_goes,
    )


def accuracy_at(cost: float, curve: CostCurve) -> Array:
    """Each seed's accuracy with this cost, on the line in log cost between the two budgets around it.

    A method whose longest run costs less has that; one whose shortest run costs more has none (NaN).
    """
    costs = curve.cost.mean(axis=1)
    order = costs.argsort()
    left = nan if costs.min() > cost * (1 + 1e-9) else None
    of_seeds = curve.accuracy[order].T
    return np.array([np.interp(np.log(cost), np.log(costs[order]), of_seed, left=left) for of_seed in of_seeds])


def by_saving(rows: Sequence[Standing], cost: str = CLOCK) -> list[Standing]:
    """The one that saves most first; those that did not reach the target last, by accuracy."""

    def place(row: Standing) -> tuple[float, float]:
        saved = row.savings[cost]
        return (saved.share, 0.0) if saved.is_reached else (inf, -row.accuracy)

    return sorted(rows, key=place)

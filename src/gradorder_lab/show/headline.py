"""The headline: at equal accuracy, how much compute and time each strategy took.

Equal accuracy is what full random ends with on the same task, less half a point of test accuracy. A strategy has
reached it at the first evaluation where its mean over seeds is at least that; what it had spent by then, its random
epochs and its scoring included, is set against what full random had spent when it got there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from gradorder_lab import paper
from gradorder_lab.judge.effects import MARGINS
from gradorder_lab.paper.experiment import largest_size
from gradorder_lab.paper.network import NeuralRecipe
from gradorder_lab.runs.summary import RecipeSummary, Summary
from gradorder_lab.training.network import CLOCK

MEASURES = {
    "trained": "example gradients",
    "forward": "forward passes",
    "backward": "backward passes",
    CLOCK: "processor seconds",
}
"""Column of the rows -> what to call it. Passes and seconds include scoring; example gradients are training's alone.

Seconds are the processor's: those of the clock are longer where the machine had other work. Runs that did not note them
have none."""

FULL_RANDOM = "full random"


@dataclass(frozen=True)
class Arrival:
    """What one strategy had spent on one task when it reached the target.

    Args:
        task: data, net and batch size.
        strategy: the method, how it sorts, where it starts.
        target: test accuracy to reach, in percent.
        epoch: of the first evaluation at or above it; None where it was not reached.
        spent: measure -> how much; empty where it was not reached.
        ratios: measure -> as a multiple of what full random spent; empty likewise.
        num_seeds: how many the means are over.
    """

    task: str
    strategy: str
    target: float
    epoch: float | None
    spent: Mapping[str, float]
    ratios: Mapping[str, float]
    num_seeds: int


@dataclass(frozen=True)
class StrategyCosts:
    """One strategy over all tasks: the medians are over the tasks where it reached the target."""

    name: str
    num_tasks: int
    num_reached: int
    median_ratios: Mapping[str, float]


@dataclass(frozen=True)
class Headline:
    """Every strategy, and the tasks behind it."""

    strategies: tuple[StrategyCosts, ...]
    arrivals: tuple[Arrival, ...]
    untrained: tuple[str, ...] = ()
    """The tasks left out, because there full random starts no further from the target than it ends."""
    missing: tuple[str, ...] = ()
    """The experiments with networks of which nothing has been run."""

    @property
    def measures(self) -> dict[str, str]:
        """Those that any run has noted, with what to call them."""
        return {
            name: label for name, label in MEASURES.items() if any(name in one.median_ratios for one in self.strategies)
        }


def headline_of(summary: Summary) -> Headline:
    """From the networks' mean curves, at the largest size of each experiment."""
    tasks: dict[str, dict[str, RecipeSummary]] = {}
    missing = []
    for name, experiment in paper.EXPERIMENTS.items():
        sizes = {size: _networks(experiment.recipes(size)) for size in experiment.seeds}
        found = _tasks(sizes[largest_size(summary, sizes.__getitem__)], summary)
        tasks |= found
        missing += [name] if any(sizes.values()) and not found else []
    untrained = tuple(task for task, runs in tasks.items() if first_row_at(target_of(runs), runs[FULL_RANDOM]) == 0)
    arrivals = [one for task, runs in tasks.items() if task not in untrained for one in _arrivals(task, runs)]
    return Headline(_costs_of_strategies(arrivals), tuple(arrivals), untrained, tuple(missing))


def _networks(recipes: Iterable[object]) -> list[NeuralRecipe]:
    """Those of one step size: a search for step sizes is no strategy."""
    return [recipe for recipe in recipes if isinstance(recipe, NeuralRecipe) and not recipe.held_out]


def _tasks(recipes: Sequence[NeuralRecipe], summary: Summary) -> dict[str, dict[str, RecipeSummary]]:
    """Task -> strategy -> its runs, for the tasks with a baseline."""
    tasks: dict[str, dict[str, RecipeSummary]] = {}
    for recipe in recipes:
        runs = summary.get(recipe)
        if runs is not None:
            tasks.setdefault(task_name(recipe), {})[strategy_name(recipe)] = runs
    return {task: runs for task, runs in tasks.items() if FULL_RANDOM in runs}


def target_of(runs: Mapping[str, RecipeSummary]) -> float:
    """The test accuracy to reach."""
    return float(runs[FULL_RANDOM].bands["test_accuracy"].mean[-1]) - MARGINS["points"]


def _arrivals(task: str, runs: Mapping[str, RecipeSummary]) -> Iterable[Arrival]:
    target = target_of(runs)
    spent_there = _spent(runs[FULL_RANDOM], first_row_at(target, runs[FULL_RANDOM]))
    for strategy, one in runs.items():
        row = first_row_at(target, one)
        spent = _spent(one, row)
        ratios = {name: value / spent_there[name] for name, value in spent.items() if name in spent_there}
        epoch = None if row is None else float(one.bands["epoch"].mean[row])
        yield Arrival(task, strategy, target, epoch, spent, ratios, len(one.seeds))


def _spent(runs: RecipeSummary, row: int | None) -> dict[str, float]:
    return {} if row is None else {name: _spent_at(row, name, runs) for name in MEASURES if name in runs.bands}


def _spent_at(row: int, name: str, runs: RecipeSummary) -> float:
    """The mean over seeds; of a clock the median, so that a run that other work slowed down does not count."""
    means = runs.bands[name].mean
    if name != CLOCK:
        return float(means[row])
    return float(np.median(runs.last[name]) * means[row] / means[-1])  # the table has seeds at the end only


def first_row_at(target: float, runs: RecipeSummary) -> int | None:
    """The first row whose mean test accuracy is at least the target; None where there is none."""
    reached = np.flatnonzero(runs.bands["test_accuracy"].mean >= target)
    return int(reached[0]) if len(reached) else None


def task_name(recipe: NeuralRecipe) -> str:
    """What strategies are compared on."""
    return f"{recipe.data}, {recipe.model}, batch {recipe.batch_size}, {recipe.epochs} epochs, size {recipe.size}"


def strategy_name(recipe: NeuralRecipe) -> str:
    """The method, how it sorts, and where in the run it starts."""
    sort = "" if recipe.sort == "none" else f", sort {recipe.sort}"
    start = f", from {recipe.start_epoch / recipe.epochs:.0%} of the run" if recipe.start_epoch else ""
    return f"{recipe.method}{sort}{start}"


def _costs_of_strategies(arrivals: Sequence[Arrival]) -> tuple[StrategyCosts, ...]:
    names = dict.fromkeys(arrival.strategy for arrival in arrivals)
    return tuple(_costs_of(name, [one for one in arrivals if one.strategy == name]) for name in names)


def _costs_of(name: str, arrivals: Sequence[Arrival]) -> StrategyCosts:
    reached = [one for one in arrivals if one.epoch is not None]
    ratios = {measure: [one.ratios[measure] for one in reached if measure in one.ratios] for measure in MEASURES}
    medians = {measure: median(values) for measure, values in ratios.items() if values}
    return StrategyCosts(name, len(arrivals), len(reached), medians)


def quantity(value: float) -> str:
    """A count or a time, at most as exact as one reads.

    >>> quantity(1_234_567.8), quantity(12.3456), quantity(0.5)
    ('1,234,568', '12.3', '0.5')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"  # noqa: PLR2004

"""The paper's convex problems: Algorithms 1 and 2, one example at a time, and how they are run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray

import gradorder as go
from gradorder.checks import part_of
from gradorder.orderings.ordering import epoch_generator
from gradorder.schedules import Schedule
from gradorder_lab.figures import Table
from gradorder_lab.problems import PROBLEMS, problem_of
from gradorder_lab.problems.problem import ConvexProblem
from gradorder_lab.runs.origin import digest
from gradorder_lab.runs.recipe import Array, Recipe, Rows, Size, Workspace
from gradorder_lab.training.step_sizes import SCHEDULES

ORDERINGS: Mapping[str, go.Ordering] = {
    "random": go.Shuffled(),
    "descending": go.Descending(),
    "ascending": go.Ascending(),
    "shuffled once": go.ShuffledOnce(),
    "flip-flop": go.FlipFlop(go.Shuffled()),
    "Plackett-Luce": go.PlackettLuce(),
}
DATA_SETS = {
    "synthetic": ("synthetic",),
    "iris": ("iris literal", "iris scaled"),
    "boston": ("boston literal", "boston scaled"),
}
"""data set -> its problems: with the paper's numbers, and well-scaled."""

PROBLEM_NAMES = tuple(problem for problems in DATA_SETS.values() for problem in problems)
PER_STEP = ("1/(1+t)", "1/sqrt(1+t)", "1/(1+t/n)")
PER_EPOCH = ("1/(1+k)", "1/sqrt(1+k)")
CONVEX_SEEDS: Mapping[Size, int] = {"mini": 10, "cpu": 100, "paper": 100}
FEWER_SEEDS: Mapping[Size, int] = {**CONVEX_SEEDS, "mini": 5}
"""Chosen with the hundred shipped seeds in view, under an earlier rule: agreement is partly by construction."""


@dataclass(frozen=True)
class ProblemRecipe(Recipe):
    """Something to be run on one of PROBLEMS."""

    problem: str

    @final
    @property
    def family(self) -> str:
        """What is run on the same problem builds it once."""
        return self.problem

    @final
    def contents(self, data: Path | None) -> Mapping[str, str]:
        """The examples of the problem, as seed 0 draws them."""
        del data
        return {self.problem: problem_hash(self.problem)}


@final
@dataclass(frozen=True)
class ConvexRecipe(ProblemRecipe):
    """One ordering with one step size on one problem.

    Args:
        experiment: the experiment that it belongs to.
        problem: a key of PROBLEMS.
        ordering: a key of ORDERINGS.
        schedule: a key of SCHEDULES.
        epochs: how many, the warm-up among them.
        warm_up: random and complete epochs before the ordering starts.
        count_from: where the step size counts from: the run's start, or the switch from random to ordered.
        batch_fraction: S / n: Algorithm 2. Without it, Algorithm 1.
        keep: q / S.
        points_per_epoch: how often the loss is noted.
    """

    revision: ClassVar[int] = 1

    ordering: str
    schedule: str
    epochs: int = 25
    warm_up: int = 0
    count_from: Literal["start", "switch"] = "start"
    batch_fraction: float | None = None
    keep: float = 1.0
    points_per_epoch: int = 1

    def run(self, seed: int, workspace: Workspace | None = None) -> Rows:
        """Run it: F, F - F*, the updates made and the examples scored, epoch by epoch."""
        del workspace
        descent = Descent(self, problem_of(self.problem, seed), seed)
        if self.warm_up:
            descent.go_on_from(_shared_warm_up(self._warm_up_alone, seed))
        else:
            descent.note()
        for epoch in range(self.warm_up, self.epochs):
            descent.epoch(epoch)
        return descent.rows()

    @property
    def _warm_up_alone(self) -> "ConvexRecipe":
        """What is the same for every ordering and selection."""
        return replace(self, experiment="", ordering="random", epochs=self.warm_up, batch_fraction=None, keep=1.0)

    def step_sizes(self, num_examples: int, first_step: int, num_steps: int, epoch: int) -> Array:
        """The step sizes of the updates range(first_step, first_step + num_steps), all of this epoch."""
        a = PROBLEMS[self.problem].step_size
        switch = self.warm_up if self.count_from == "switch" else 0
        schedule = SCHEDULES[self.schedule](a, num_examples, switch)
        return _step_sizes(schedule, first_step, num_steps, epoch)


@cache
def problem_hash(name: str) -> str:
    """What the examples of a problem are."""
    problem = problem_of(name, 0)
    return digest([problem.directions, problem.targets])


@cache
def _step_sizes(schedule: Schedule, first_step: int, num_steps: int, epoch: int) -> Array:
    return np.array([schedule(step, epoch) for step in range(first_step, first_step + num_steps)])


@lru_cache(maxsize=8)
def _shared_warm_up(recipe: ConvexRecipe, seed: int) -> "Descent":
    """The random epochs that many recipes share, run once."""
    descent = Descent(recipe, problem_of(recipe.problem, seed), seed)
    descent.note()
    for epoch in range(recipe.warm_up):
        descent.epoch(epoch)
    return descent


class Descent:
    """The moving parts of one run."""

    def __init__(self, recipe: ConvexRecipe, problem: ConvexProblem, seed: int) -> None:
        self.recipe, self.problem, self.seed = recipe, problem, seed
        self.ordering = ORDERINGS[recipe.ordering]
        self.w = problem.start.copy()
        self.num_updates = self.num_scored = 0
        self.epoch_place = 0.0
        self.notes: list[tuple[float, ...]] = []

    def go_on_from(self, other: "Descent") -> None:
        """Stand where the other does."""
        self.w, self.notes = other.w.copy(), other.notes.copy()
        self.num_updates, self.num_scored, self.epoch_place = other.num_updates, other.num_scored, other.epoch_place

    def note(self) -> None:
        """Where the run stands."""
        loss = self.problem.loss(self.w)
        excess = loss - self.problem.optimal_loss
        self.notes.append((self.epoch_place, self.num_updates, self.num_scored, loss, excess))

    def rows(self) -> Rows:
        """What was noted, as columns."""
        names = ("epoch", "updates", "scored", "loss", "excess")
        return dict(zip(names, np.array(self.notes).T.copy(), strict=True))

    def epoch(self, epoch: int) -> None:
        """One epoch: random and complete in the warm-up, then Algorithm 1 or 2."""
        if epoch < self.recipe.warm_up:
            self._descend(self.order(go.Shuffled(), epoch), epoch)
        elif self.recipe.batch_fraction is None:
            self._descend(self.order(self.ordering, epoch), epoch)
        else:
            self._select_and_descend(epoch)
        self.epoch_place = epoch + 1.0
        self.note()

    def order(self, ordering: go.Ordering, epoch: int) -> NDArray[np.int64]:
        """Algorithm 1: the examples sorted by their gradient norms at the start of the epoch."""
        scores = None
        if ordering.needs_scores:
            scores = torch.from_numpy(self.problem.gradient_norms(self.w))
            self.num_scored += self.problem.num_examples
        generator = epoch_generator(self.seed, epoch)
        order = ordering(scores, epoch=epoch, generator=generator, num_examples=self.problem.num_examples)
        return order.numpy()

    def _select_and_descend(self, epoch: int) -> None:
        """Algorithm 2: of each random batch of S the q hardest at the current weights, in the ordering's order."""
        generator = epoch_generator(self.seed, epoch)
        num_examples = self.problem.num_examples
        shuffled = go.Shuffled()(None, epoch=epoch, generator=generator, num_examples=num_examples).numpy()
        batch_size = round((self.recipe.batch_fraction or 1.0) * num_examples)
        for first in range(0, num_examples, batch_size):
            batch = shuffled[first : first + batch_size]
            norms = torch.from_numpy(self.problem.gradient_norms(self.w)[batch])
            self.num_scored += len(batch)
            num_hardest = part_of(self.recipe.keep, len(batch))
            hardest = go.Descending()(norms, epoch=epoch, generator=generator)[:num_hardest]
            chosen = hardest[self.ordering(norms[hardest], epoch=epoch, generator=generator)]
            self._descend(batch[chosen.numpy()], epoch)

    def _descend(self, order: NDArray[np.int64], epoch: int) -> None:
        """One update per example; the loss is noted between equal parts of the epoch."""
        step_sizes = self.recipe.step_sizes(self.problem.num_examples, self.num_updates, len(order), epoch)
        ends = np.linspace(0, len(order), self.recipe.points_per_epoch + 1).round().astype(int).tolist()
        for part in (slice(first, last) for first, last in pairwise(ends)):
            if part.start > 0:
                self.epoch_place = epoch + part.start / len(order)
                self.note()
            self.problem.descend(self.w, order[part], step_sizes[part])
            self.num_updates += part.stop - part.start


def problems() -> Iterator[tuple[str, str]]:
    """Every data set with each of its problems."""
    for data, names in DATA_SETS.items():
        for problem in names:
            yield data, problem


def numbers_of(problem: str) -> str:
    """The reading that a problem is: with the paper's numbers, or well-scaled."""
    return "well-scaled" if problem.endswith("scaled") else "the paper's numbers"


def convex_settings(experiment: str, problems: Sequence[str], also: str = "") -> Table:
    """How these problems are run; `also` says what is particular to the experiment."""
    return Table(
        name=f"{experiment}-settings",
        title=f"{experiment.capitalize()}: how it is run",
        caption="One update per example; every epoch each example once. The loss of an example is the sum of r^4 + r^2 "
        "over its residuals r. The factor 1e-10 that the paper puts in front of gradients is in the step size. Scaled: "
        "features and target standardised, and a step with which the loss falls in every epoch of every order while "
        f"the step is constant.{also}",
        header=("problem", "examples", "parameters", "first step size", "start", "epochs"),
        rows=tuple(_settings_of(problem) for problem in problems),
        experiment=experiment,
    )


def _settings_of(problem: str) -> tuple[str, ...]:
    kind = PROBLEMS[problem]
    one = kind.of_seed(0)
    start = "uniform in the box, by seed" if problem == "synthetic" else f"{one.start[0]:g} in every coordinate"
    return problem, str(one.num_examples), str(len(one.start)), f"{kind.step_size:g}", start, "25"

"""Learning rates: their schedules over a run, and the search for the first one."""

from collections.abc import Callable, Mapping, Sequence

import gradorder as go
from gradorder.progress_lr import half_cosine
from gradorder.schedules import Schedule

StepSize = Callable[[int, int, float], float]
"""The step size of an update: (updates made before it, epoch, part of the epoch that is behind) -> number."""

SCHEDULES: Mapping[str, Callable[[float, int, int], Schedule]] = {
    "constant": lambda a, _, __: go.Constant(a),
    "1/(1+t)": lambda a, n, switch: go.InversePerStep(a, since=switch * n),
    "1/sqrt(1+t)": lambda a, n, switch: go.InverseSqrtPerStep(a, since=switch * n),
    "1/(1+t/n)": lambda a, n, switch: go.InversePerStep(a, scale=n, since=switch * n),
    "1/(1+k)": lambda a, _, switch: go.InversePerEpoch(a, since=switch),
    "1/sqrt(1+k)": lambda a, _, switch: go.InverseSqrtPerEpoch(a, since=switch),
}
"""(a, updates in an epoch n, epoch `switch`) -> a times this, counting from the switch; t counts updates, k epochs."""


COSINES = ("cosine", "cosine by epoch")
"""Half a cosine down to 0: over the updates of plain training, or over the epochs, however many updates each has."""

WIDEST = 16.0
"""How far beyond its grid the search may go, as a factor."""


def step_size_named(name: str, a: float, *, steps_per_epoch: int, epochs: float) -> StepSize:
    """One of SCHEDULES or COSINES, starting at `a`."""
    if name not in {*SCHEDULES, *COSINES}:
        raise ValueError(f"schedule must be one of {', '.join((*SCHEDULES, *COSINES))}, got {name!r}")
    if name == "cosine":
        num_steps = steps_per_epoch * epochs
        return lambda step, _, __: a * half_cosine(min(1.0, step / num_steps))
    if name == "cosine by epoch":
        return lambda _, epoch, part: a * half_cosine(min(1.0, (epoch + part) / epochs))
    schedule = SCHEDULES[name](a, steps_per_epoch, 0)
    return lambda step, epoch, _: schedule(step, epoch)


def step_size_by_progress(name: str, a: float, sampler: go.OrderedSampler) -> StepSize:
    """One of COSINES over the progress of a sampler that decides when the run ends, as `go.ProgressLR` has it."""
    if name not in COSINES:
        raise ValueError(f"schedule must be one of {', '.join(COSINES)} for a run by progress, got {name!r}")
    # Before its first step a sampler counts the batches that were handed out, and the loop takes all of them at once.
    return lambda step, _, __: a * half_cosine(sampler.progress if step > 0 else 0.0)


def best_size(accuracies: Mapping[float, float]) -> float:
    """The step size with the best accuracy; of equal ones the smallest."""
    return max(accuracies, key=lambda size: (accuracies[size], -size))


def missing_sizes(grid: Sequence[float], means: Mapping[float, float]) -> list[float]:
    """The step sizes that the search needs next: the grid, then beyond the edge that the best one lies at.

    >>> missing_sizes((0.1, 0.2), {})
    [0.1, 0.2]
    >>> missing_sizes((0.1, 0.2), {0.1: 80.0, 0.2: 85.0})
    [0.4]
    >>> missing_sizes((0.1, 0.2), {0.1: 80.0, 0.2: 85.0, 0.4: 82.0})
    []
    """
    if len(grid) == 1:
        return []
    if untried := [size for size in grid if size not in means]:
        return untried
    best = best_size(means)
    if best == max(means) and best < WIDEST * max(grid):
        return [2 * best]
    if best == min(means) and best > min(grid) / WIDEST:
        return [best / 2]
    return []

"""Step sizes of a run of known length: the paper's, and half a cosine."""

from collections.abc import Callable, Mapping
from typing import Final

import gradorder as go
from gradorder.progress_lr import half_cosine
from gradorder.schedules import Schedule

StepSize = Callable[[int, int, float], float]
"""The step size of an update: (updates made before it, epoch, part of the epoch that is behind) -> number."""

SCHEDULES: Final = ("constant", "1/(1+t)", "1/sqrt(1+t)", "1/(1+t/n)", "1/(1+k)", "1/sqrt(1+k)")
"""t counts updates, k epochs; n is the number of updates in an epoch."""


def schedule_named(name: str, a: float, steps_per_epoch: int, switch: int = 0) -> Schedule:
    """One of SCHEDULES times `a`, counting from the first step of epoch `switch`."""
    step = switch * steps_per_epoch
    schedules: dict[str, Schedule] = {
        "constant": go.Constant(a),
        "1/(1+t)": go.InversePerStep(a, since=step),
        "1/sqrt(1+t)": go.InverseSqrtPerStep(a, since=step),
        "1/(1+t/n)": go.InversePerStep(a, scale=steps_per_epoch, since=step),
        "1/(1+k)": go.InversePerEpoch(a, since=switch),
        "1/sqrt(1+k)": go.InverseSqrtPerEpoch(a, since=switch),
    }
    return schedules[name]


def step_size_named(name: str, a: float, *, steps_per_epoch: int, epochs: int) -> StepSize:
    """One of SCHEDULES, or "cosine", starting at `a`."""
    if name not in {*SCHEDULES, "cosine"}:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, cosine, got {name!r}")
    if name == "cosine":
        return half_cosine_over_steps(a, steps_per_epoch * epochs)
    schedule = schedule_named(name, a, steps_per_epoch)
    return lambda step, epoch, _: schedule(step, epoch)


def half_cosine_over_steps(a: float, num_steps: int) -> StepSize:
    """From `a` down to 0 over so many steps."""
    return lambda step, _, __: a * half_cosine(min(1.0, step / num_steps))


def half_cosine_over_epochs(a: float, num_epochs: float) -> StepSize:
    """From `a` down to 0 over so many epochs, however many steps each will have."""
    return lambda _, epoch, part: a * half_cosine(min(1.0, (epoch + part) / num_epochs))


def best_size(accuracies: Mapping[float, float]) -> float:
    """The step size with the best accuracy; of equal ones the smallest."""
    return max(accuracies, key=lambda size: (accuracies[size], -size))

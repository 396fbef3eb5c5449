"""Step sizes of a run of known length: the paper's, and half a cosine."""

from collections.abc import Callable, Mapping

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


def step_size_named(name: str, a: float, *, steps_per_epoch: int, epochs: int) -> StepSize:
    """One of SCHEDULES, or "cosine", starting at `a`."""
    if name not in {*SCHEDULES, "cosine"}:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, cosine, got {name!r}")
    if name == "cosine":
        return half_cosine_over_steps(a, steps_per_epoch * epochs)
    schedule = SCHEDULES[name](a, steps_per_epoch, 0)
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

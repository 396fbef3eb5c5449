"""Step sizes of a run of known length: the paper's, and the usual ones."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import gradorder as go

StepSize = Callable[[int, int, float], float]
"""The step size of an update: (updates made before it, epoch, part of the epoch that is behind) -> number."""

NAMES: Final = ("constant", "1/(1+t)", "1/sqrt(1+t)", "1/(1+t/n)", "1/(1+k)", "1/sqrt(1+k)", "cosine", "step")
"""t counts updates, k epochs; n is the number of updates in an epoch."""

_MILESTONES: Final = (0.5, 0.75)
_DROP: Final = 0.1


def step_size_named(name: str, a: float, *, steps_per_epoch: int, epochs: int) -> StepSize:
    """One of NAMES, starting at `a`."""
    known: dict[str, Callable[[int, int], float]] = {
        "constant": go.Constant(a),
        "1/(1+t)": go.InversePerStep(a),
        "1/sqrt(1+t)": go.InverseSqrtPerStep(a),
        "1/(1+t/n)": go.InversePerStep(a, scale=steps_per_epoch),
        "1/(1+k)": go.InversePerEpoch(a),
        "1/sqrt(1+k)": go.InverseSqrtPerEpoch(a),
        "cosine": lambda step, _: a * (1 + math.cos(math.pi * min(1.0, step / (steps_per_epoch * epochs)))) / 2,
        "step": lambda _, epoch: a * _DROP ** sum(epoch >= round(part * epochs) for part in _MILESTONES),
    }
    if name not in known:
        raise ValueError(f"schedule must be one of {', '.join(NAMES)}, got {name!r}")
    found = known[name]
    return lambda step, epoch, _: found(step, epoch)


def best_size(accuracies: Mapping[float, float]) -> float:
    """The step size with the best accuracy; of equal ones the smallest."""
    return max(accuracies, key=lambda size: (accuracies[size], -size))


def half_cosine(a: float, num_steps: int) -> StepSize:
    """From `a` down to 0 over so many steps."""
    return lambda step, _, __: _cosine(a, step / num_steps)


def half_cosine_over_epochs(a: float, num_epochs: float) -> StepSize:
    """From `a` down to 0 over so many epochs, however many steps each will have."""
    return lambda _, epoch, part: _cosine(a, (epoch + part) / num_epochs)


def _cosine(a: float, progress: float) -> float:
    return a * (1 + math.cos(math.pi * min(1.0, progress))) / 2

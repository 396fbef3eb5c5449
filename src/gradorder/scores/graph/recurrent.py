"""A layer of an LSTM that torch runs as one operation: its weights act at every time step.

    gates_t = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh

With the gradients at the gates known, dW_ih = sum_t dgates_t x_t' and dW_hh = sum_t dgates_t h_{t-1}'. torch keeps
them to itself, so the steps are run again, with something added to the gates by which autograd can differentiate.
"""

from typing import NamedTuple

import torch
from torch.nn import functional as F

from gradorder.precision import widened
from gradorder.scores.graph.forms import Dense, Form, OuterSum
from gradorder.scores.graph.operations import Step
from gradorder.scores.graph.place import Place, examples_first


class _Gates(NamedTuple):
    gradients: torch.Tensor
    """(T, B, 4 h)."""
    before: torch.Tensor
    """The hidden state before each time step, (T, B, h)."""


def recurrent(step: Step, gradients: tuple[torch.Tensor | None, ...], number: int) -> Form:
    """Input weights, hidden weights and the two biases are inputs number 1 to 4 of the operation."""
    if "gates" not in step.notes:
        step.notes["gates"] = _gates(step, gradients)
    gates: _Gates = step.notes["gates"]
    place = recurrent_place(step)
    left = _by_time(gates.gradients, place)
    if number > 2:  # noqa: PLR2004 - a bias
        return Dense(left.sum(1))
    return OuterSum(left, _by_time(widened(step.saved("input")) if number == 1 else gates.before, place))


def recurrent_place(step: Step) -> Place:
    """Of the examples in (T, B, ...); states have them first."""
    return next(place for place in step.places if place is not None).at(1)


def _by_time(tensor: torch.Tensor, place: Place) -> torch.Tensor:
    """(T, B, d) as (B, positions, d)."""
    return examples_first(tensor, place).flatten(1, 2)


def _gates(step: Step, gradients: tuple[torch.Tensor | None, ...]) -> _Gates:
    inputs = widened(step.saved("input")).detach()
    weights = [widened(step.saved(f"weight{i}")).detach() for i in range(2 + 2 * step.saved("has_biases"))]
    hidden, cell = (widened(step.saved(name)).detach() for name in ("hx_", "cx_"))
    times = range(len(inputs))
    with torch.enable_grad():
        added = inputs.new_zeros(*inputs.shape[:2], len(weights[0]), requires_grad=True)
        projected = F.linear(inputs, weights[0], sum(weights[2:]) if weights[2:] else None) + added  # type: ignore[arg-type]
        before: dict[int, torch.Tensor] = {}
        outputs: dict[int, torch.Tensor] = {}
        for time in reversed(times) if step.saved("reverse") else times:
            before[time] = hidden
            i, f, g, o = (projected[time] + F.linear(hidden, weights[1])).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs[time] = hidden
        made = (torch.stack([outputs[time] for time in times]), hidden, cell)
        used = [(each, gradient) for each, gradient in zip(made, gradients, strict=True) if gradient is not None]
        (found,) = torch.autograd.grad([each for each, _ in used], added, [gradient for _, gradient in used])
    return _Gates(found, torch.stack([before[time] for time in times]).detach())

"""Normalization layers, and LSTM layers that torch runs as one operation."""

from typing import NamedTuple

import torch
from torch.nn import functional as F

from gradorder.checks import widened
from gradorder.norms.factored import Dense, OuterSum, PerExample
from gradorder.norms.operation import Operation, Place, Rule, examples_first, named, output_shape
from gradorder.norms.rules.pointwise import broadcast_sums

# Normalization ------------------------------------------------------------------------------------------------------


def _layer_norm(op: Operation) -> list[Place | None]:
    """Normalizes over the last dimensions, each position by itself."""
    place, shape = op.places[0], output_shape(op.node, 0)
    if place is None or place.dim >= len(shape) - len(op.saved("normalized_shape")):
        raise op.unproven("it goes along the examples")
    return [place, None, None]


def _batch_norm(op: Operation) -> list[Place | None]:
    """Normalizes by running statistics; or each channel by itself, if the examples are channels (InstanceNorm)."""
    place = op.places[0]
    if place is not None and place.dim == 1:
        return [place, place.at(0), place.at(0)]
    if place is None or op.saved("training"):
        raise ValueError(
            "BatchNorm normalizes by the statistics of this batch, so there is no per-example gradient. Use running "
            "statistics (track_running_stats=True, in eval mode), GroupNorm or LayerNorm"
        )
    return [place, None, None]


def _group_norm(op: Operation) -> list[Place | None]:
    """Normalizes groups of channels, each example by itself."""
    place = op.places[0]
    if place is None or place.dim != 0:
        raise op.unproven("examples are not its first dimension")
    return [place, None, None]


def _scale_of_layer_norm(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """The gradient times the normalized input, summed over positions; for the bias, the gradient alone."""
    if number == 1:
        mean, scale = op.saved("result1"), op.saved("result2")
        gradient = gradient * torch.addcmul(-mean * scale, widened(op.saved("input")), scale)
    return broadcast_sums(op, gradient, number)


def _scale_of_rms_norm(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """The gradient times the normalized input, summed over positions."""
    return broadcast_sums(op, gradient * (widened(op.saved("input")) * op.saved("result1")), number)


def _scale_of_batch_norm(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """The gradient times the normalized input, summed per channel; for the bias, the gradient alone."""
    place = op.places[0] or op.place
    if number == 1:
        mean, variance = widened(op.saved("running_mean")), widened(op.saved("running_var"))
        normal = F.batch_norm(widened(op.saved("input")), mean, variance, eps=op.saved("eps"))
        return Dense(_products_per_channel(gradient, normal, place))
    return Dense(_per_channel(gradient, place))


def _scale_of_group_norm(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """The gradient times the normalized input, summed per channel; for the bias, the gradient alone."""
    place = op.places[0] or op.place
    if number == 1:
        inputs = widened(op.saved("input"))
        groups = inputs.reshape(len(inputs), op.saved("group"), -1)
        mean, scale = (op.saved(name).unsqueeze(2) for name in ("result1", "result2"))
        normal = ((groups - mean) * scale).view_as(inputs)
        return Dense(_products_per_channel(gradient, normal, place))
    return Dense(_per_channel(gradient, place))


def _per_channel(values: torch.Tensor, place: Place) -> torch.Tensor:
    """(B, C, ...) summed over positions, and over all that lies beside the examples."""
    flat = values.flatten(2).sum(2) if values.ndim > 2 else values  # noqa: PLR2004 - (B, C)
    return examples_first(flat, place).sum(1)


def _products_per_channel(first: torch.Tensor, second: torch.Tensor, place: Place) -> torch.Tensor:
    """The same of a product, without writing the product to memory."""
    if first.ndim == 2:  # noqa: PLR2004 - (B, C)
        return _per_channel(first * second, place)
    products: torch.Tensor = torch.linalg.vecdot(first.flatten(2), second.flatten(2))
    return examples_first(products, place).sum(1)


# LSTM ---------------------------------------------------------------------------------------------------------------
#
#     gates_t = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh
#
# With the gradients at the gates known, dW_ih = sum_t dgates_t x_t' and dW_hh = sum_t dgates_t h_{t-1}'. torch does not
# expose them, so the layer runs again, with a zero added to the gates by which autograd can differentiate.

_LSTM = 2
"""The number that torch gives to LSTMs among the recurrent layers."""


def _lstm(op: Operation) -> list[Place | None]:
    """(T, B, d) and states (B, h), with four weights in between."""
    if op.saved("mode") != _LSTM or op.saved("batch_sizes"):
        raise op.unproven("of recurrent layers in one operation, only the LSTM has a rule")
    outputs = [place for place in op.places[:1] if place is not None]
    states = [place for place in op.places[1:] if place is not None]
    if any(place.dim != 1 for place in outputs) or any(place.dim != 0 for place in states):
        raise op.unproven("it goes along the examples")
    place = (outputs + states)[0]
    return [place.at(1), None, None, None, None, place.at(0), place.at(0)]


class _Gates(NamedTuple):
    gradients: torch.Tensor
    """(T, B, 4 h)."""
    before: torch.Tensor
    """The hidden state before each time, (T, B, h)."""


def _lstm_weights(op: Operation, gradients: tuple[torch.Tensor | None, ...], number: int) -> PerExample:
    """The outer products of the gradients at the gates with inputs or hidden states, summed over time."""
    # Input weights, hidden weights and the two biases are inputs number 1 to 4 of the operation.
    if "gates" not in op.notes:
        op.notes["gates"] = _gates(op, gradients)
    gates: _Gates = op.notes["gates"]
    place = next(place for place in op.places if place is not None).at(1)
    left = _by_time(gates.gradients, place)
    if number > 2:  # noqa: PLR2004 - a bias
        return Dense(left.sum(1))
    return OuterSum(left, _by_time(widened(op.saved("input")) if number == 1 else gates.before, place))


def _by_time(tensor: torch.Tensor, place: Place) -> torch.Tensor:
    """(T, B, d) as (B, positions, d)."""
    return examples_first(tensor, place).flatten(1, 2)


def _gates(op: Operation, gradients: tuple[torch.Tensor | None, ...]) -> _Gates:
    inputs = widened(op.saved("input")).detach()
    weights = [widened(op.saved(f"weight{i}")).detach() for i in range(2 + 2 * op.saved("has_biases"))]
    hidden, cell = (widened(op.saved(name)).detach() for name in ("hx_", "cx_"))
    times = range(len(inputs))
    with torch.enable_grad():
        added = inputs.new_zeros(*inputs.shape[:2], len(weights[0]), requires_grad=True)
        projected = F.linear(inputs, weights[0], sum(weights[2:]) if weights[2:] else None) + added  # type: ignore[arg-type]
        before: dict[int, torch.Tensor] = {}
        outputs: dict[int, torch.Tensor] = {}
        for time in reversed(times) if op.saved("reverse") else times:
            before[time] = hidden
            i, f, g, o = (projected[time] + F.linear(hidden, weights[1])).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs[time] = hidden
        made = (torch.stack([outputs[time] for time in times]), hidden, cell)
        used = [(each, gradient) for each, gradient in zip(made, gradients, strict=True) if gradient is not None]
        (found,) = torch.autograd.grad([each for each, _ in used], added, [gradient for _, gradient in used])
    return _Gates(found, torch.stack([before[time] for time in times]).detach())


RULES: dict[str, Rule] = {
    "NativeLayerNorm": Rule(_layer_norm, _scale_of_layer_norm),
    "FusedRmsNorm": Rule(_layer_norm, _scale_of_rms_norm),
    "NativeBatchNorm": Rule(_batch_norm, _scale_of_batch_norm),
    **named("CudnnBatchNorm MiopenBatchNorm", Rule(_batch_norm)),
    "NativeGroupNorm": Rule(_group_norm, _scale_of_group_norm),
    "MkldnnRnnLayer": Rule(_lstm, _lstm_weights, needs_all_outputs=True),
}

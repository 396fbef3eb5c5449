"""Convolutions: dW[p, c, k] = sum_t g[p, t] a[c, s t + d k - pad] over output positions t.

There are four exact ways to the squared norm of each example's weight gradient. For C input and P output channels, K
kernel taps and T output positions, per example:

    patches    unfold the input into T patches of C K numbers, then one product        T P C K
    groups     the batch as groups of one large convolution: torch's own kernel        T P C K
    grams      sum over positions of <g_t, g_s> <patch_t, patch_s>; the second
               factor is the channels' Gram matrix, shifted and added over the taps    T^2 (P + C + K)
    taps       where every channel is a group of its own: a product for each tap       T C K

The choice is made from the shapes by the cost model at the end, never by timing: timing would change which
kernel runs, hence the last bits, hence orders.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, final

import torch
from torch.nn import functional as F

from gradorder.checks import widened
from gradorder.norms.factored import Dense, OuterSum, PerExample, row_dots, row_squares
from gradorder.norms.operation import Operation, Place, Rule, examples_first


class Geometry(NamedTuple):
    """A convolution without its numbers; `weight` is the shape (P, C / groups, *kernel)."""

    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def kernel(self) -> tuple[int, ...]:
        """Taps in each direction."""
        return self.weight[2:]


@final
@dataclass(frozen=True, eq=False)
class ConvolutionSum:
    """The weight gradients of a convolution with these inputs and output gradients, one per example."""

    inputs: torch.Tensor
    gradient: torch.Tensor
    geometry: Geometry

    def squares(self) -> torch.Tensor:
        """By the cheapest way for these shapes."""
        return convolution_squares(self.inputs, self.gradient, self.geometry)

    def dense(self) -> torch.Tensor:
        """(B, *weight)."""
        rows = weight_gradients(self.inputs, self.gradient, self.geometry)
        return rows.reshape(-1, *self.geometry.weight)


def convolution_squares(inputs: torch.Tensor, gradient: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    """The squared norm of each example's weight gradient, shape (B,), the cheapest way."""
    if len(geometry.kernel) == 1:
        inputs, gradient, geometry = _as_two_dimensional(inputs, gradient, geometry)
    if math.prod(geometry.kernel) == 1 and geometry.groups == 1 and not any(geometry.padding):
        return _pointwise(inputs, gradient, geometry)
    way, size = _cheapest(tuple(inputs.shape[1:]), tuple(gradient.shape[1:]), geometry)
    parts = [way(inputs[i : i + size], gradient[i : i + size], geometry) for i in range(0, len(inputs), size)]
    return torch.cat(parts)


def weight_gradients(inputs: torch.Tensor, gradient: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    """The weight gradients themselves, shape (B, weight.numel()): every example is a group of its own."""
    size = len(inputs)
    as_groups = geometry._replace(
        weight=(size * geometry.weight[0], *geometry.weight[1:]), groups=size * geometry.groups
    )
    rows = batch_gradient(
        inputs.reshape(1, -1, *inputs.shape[2:]), gradient.reshape(1, -1, *gradient.shape[2:]), as_groups
    )
    return rows.reshape(size, -1)


def batch_gradient(inputs: torch.Tensor, gradient: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    """The weight gradient of the batch as a whole, by torch's own kernel."""
    spatial = len(geometry.kernel)
    result: torch.Tensor = torch.ops.aten.convolution_backward(
        gradient,
        inputs,
        inputs.new_empty(1).expand(geometry.weight),
        None,
        geometry.stride,
        geometry.padding,
        geometry.dilation,
        False,  # not transposed
        [0] * spatial,
        geometry.groups,
        [False, True, False],
    )[1]
    return result


def _as_two_dimensional(
    inputs: torch.Tensor, gradient: torch.Tensor, geometry: Geometry
) -> tuple[torch.Tensor, torch.Tensor, Geometry]:
    channels, (taps,) = geometry.weight[:2], geometry.kernel
    flat = Geometry(
        (*channels, 1, taps),
        (1, *geometry.stride),
        (0, *geometry.padding),
        (1, *geometry.dilation),
        geometry.groups,
    )
    return inputs.unsqueeze(2), gradient.unsqueeze(2), flat


def _pointwise(inputs: torch.Tensor, gradient: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    """One tap: a linear layer at every position."""
    strided = inputs
    for dim, step in enumerate(geometry.stride, start=2):
        strided = strided[(slice(None),) * dim + (slice(None, None, step),)]
    return OuterSum(gradient.flatten(2).mT, strided.flatten(2).mT).squares()


def _by_groups(inputs: torch.Tensor, gradient: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    return row_squares(weight_gradients(inputs, gradient, geometry))


def _by_patches(inputs: torch.Tensor, gradient: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    """Channels last, so that a patch is rows of contiguous numbers."""
    (pad_y, pad_x), (high, wide) = geometry.padding, geometry.kernel
    padded = F.pad(inputs, (pad_x, pad_x, pad_y, pad_y)).permute(0, 2, 3, 1).contiguous()
    size, channels, out_high, out_wide = len(inputs), padded.shape[3], gradient.shape[2], gradient.shape[3]
    example, row, column, _ = padded.stride()
    patches = padded.as_strided(
        (size, out_high, out_wide, high, wide, channels),
        (
            example,
            geometry.stride[0] * row,
            geometry.stride[1] * column,
            geometry.dilation[0] * row,
            geometry.dilation[1] * column,
            1,
        ),
    )
    left = gradient.permute(0, 2, 3, 1).reshape(size, out_high * out_wide, -1)
    return row_squares(left.mT @ patches.reshape(size, out_high * out_wide, -1))


def _by_grams(inputs: torch.Tensor, gradient: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    """Strides split the input into phases, each with a Gram matrix of its own."""
    size, (out_high, out_wide) = len(inputs), gradient.shape[2:]
    left = gradient.flatten(2)
    outputs = (left.mT @ left).view(size, out_high, out_wide, out_high, out_wide)
    patches = torch.zeros_like(outputs)
    for (phase_y, phase_x), shifts in _phases(geometry).items():
        phase = inputs[:, :, phase_y :: geometry.stride[0], phase_x :: geometry.stride[1]]
        high, wide = phase.shape[2:]
        right = phase.flatten(2)
        gram = (right.mT @ right).view(size, high, wide, high, wide)
        for shift_y, shift_x in shifts:
            (to_y, from_y), (to_x, from_x) = (
                _overlap(shift_y, high, out_high),
                _overlap(shift_x, wide, out_wide),
            )
            patches[:, to_y, to_x, to_y, to_x] += gram[:, from_y, from_x, from_y, from_x]
    return row_dots(patches, outputs).clamp_(min=0)


def _by_taps(inputs: torch.Tensor, gradient: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    """Every channel by itself: one tap of the kernel after the other, each a product over positions."""
    (pad_y, pad_x), (high, wide) = geometry.padding, geometry.kernel
    padded = F.pad(inputs, (pad_x, pad_x, pad_y, pad_y))
    out_high, out_wide = gradient.shape[2:]
    (step_y, step_x), (dilation_y, dilation_x) = geometry.stride, geometry.dilation
    total = inputs.new_zeros(len(inputs))
    for y, x in itertools.product(range(high), range(wide)):
        top, left = y * dilation_y, x * dilation_x
        shifted = padded[:, :, top : top + step_y * out_high : step_y, left : left + step_x * out_wide : step_x]
        total += row_squares((shifted * gradient).sum((2, 3)))
    return total


def _phases(geometry: Geometry) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The shifts of the taps, by the phase of the strided input that they read."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for tap in itertools.product(*(range(taps) for taps in geometry.kernel)):
        offsets = [k * d - p for k, d, p in zip(tap, geometry.dilation, geometry.padding, strict=True)]
        (shift_y, phase_y), (shift_x, phase_x) = (
            divmod(offset, stride) for offset, stride in zip(offsets, geometry.stride, strict=True)
        )
        found.setdefault((phase_y, phase_x), []).append((shift_y, shift_x))
    return found


def _overlap(shift: int, num_in: int, num_out: int) -> tuple[slice, slice]:
    """The outputs whose shifted input exists, and those inputs."""
    first = max(0, -shift)
    last = max(first, min(num_out, num_in - shift))
    return slice(first, last), slice(first + shift, last + shift)


Way = Callable[[torch.Tensor, torch.Tensor, Geometry], torch.Tensor]


@cache
def _cheapest(inputs: tuple[int, ...], outputs: tuple[int, ...], geometry: Geometry) -> tuple[Way, int]:
    """The cheapest way for examples of these shapes, and how many of them at once stay in the cache."""
    _, way, at_once = min(_costs(inputs, outputs, geometry), key=lambda cost: cost[0])
    return way, max(1, at_once)


def _costs(inputs: tuple[int, ...], outputs: tuple[int, ...], geometry: Geometry) -> Iterator[tuple[float, Way, int]]:
    """(cost, way, examples at once) of every way that can serve.

    A cost counts multiplications in products; what moves numbers about instead counts as so many of them. The
    weights were fitted once to times of 3x3 layers with 1 to 512 channels and 4x4 to 32x32 positions.
    """
    channels, filters = inputs[0], outputs[0]
    positions, taps = math.prod(outputs[1:]), math.prod(geometry.kernel)
    weights = math.prod(geometry.weight)
    per_channel = weights * positions // geometry.weight[1]
    yield per_channel * max(_LEAST_CHANNELS, geometry.weight[1]) + 60 * weights, _by_groups, 2**19 // weights
    if len(geometry.kernel) != 2:  # noqa: PLR2004 - two dimensions
        return
    if geometry.groups == channels == filters:
        yield _COST_OF_A_TAP * taps * positions * channels, _by_taps, 2**18 // (positions * channels)
    if geometry.groups > 1:
        return
    unfolded = positions * channels * taps
    yield positions * weights + 18 * unfolded + 15 * weights, _by_patches, 2**20 // (unfolded + weights)
    yield positions**2 * (filters + channels + 30 * taps), _by_grams, 2**21 // (3 * positions**2)


_COST_OF_A_TAP = 8
"""Multiplications of a matrix product in the time of one that is written down and summed; measured on 7 x 7 kernels."""
_LEAST_CHANNELS = 16
"""torch's kernel takes as long for fewer channels."""


# The rules ----------------------------------------------------------------------------------------------------------


def _first_dimension(op: Operation) -> list[Place | None]:
    """Examples are along the first dimension; weight and bias are shared."""
    if op.place.dim != 0:
        raise op.unproven("examples are not its first dimension")
    return [op.place, None, None]


def _kernel_gradients(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """The products of output gradients and input patches, summed over positions."""
    if number == 2:  # noqa: PLR2004 - the bias
        return Dense(examples_first(gradient, op.place).flatten(3).sum((1, 3)))
    inputs = widened(op.saved("input"))
    shape = tuple(op.input_shape(1))
    padding = tuple(op.saved("padding"))
    geometry = Geometry(
        shape,
        tuple(op.saved("stride")),
        padding if len(padding) == len(shape) - 2 else padding * (len(shape) - 2),  # "valid" is saved as one zero
        tuple(op.saved("dilation")),
        op.saved("groups"),
    )
    if op.saved("transposed"):  # a convolution's backward pass: inputs and gradients swap
        inputs, gradient = gradient, inputs
        if any(more >= stride for more, stride in zip(op.saved("output_padding"), geometry.stride, strict=True)):
            inputs, geometry = _cut_to_last_tap(inputs, gradient, geometry)
    if op.place.is_plain:
        return ConvolutionSum(inputs, gradient, geometry)
    each = examples_first(weight_gradients(inputs, gradient, geometry), op.place).sum(1)
    return Dense(each.reshape(len(each), *shape))


def _cut_to_last_tap(inputs: torch.Tensor, outputs: torch.Tensor, geometry: Geometry) -> tuple[torch.Tensor, Geometry]:
    """Write out the padding and cut behind the last tap of the last output: the rest would give one output more."""
    inputs = F.pad(inputs, [padding for padding in reversed(geometry.padding) for _ in range(2)])
    sizes = zip(outputs.shape[2:], geometry.stride, geometry.dilation, geometry.kernel, strict=True)
    for dim, (positions, stride, dilation, taps) in enumerate(sizes, start=2):
        inputs = inputs.narrow(dim, 0, (positions - 1) * stride + dilation * (taps - 1) + 1)
    return inputs, geometry._replace(padding=(0,) * len(geometry.padding))


RULES: dict[str, Rule] = {"Convolution": Rule(_first_dimension, _kernel_gradients)}

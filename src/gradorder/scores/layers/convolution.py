"""Convolutions: dW[p, c, k] = sum_t g[p, t] a[c, s t + d k - pad], a sum over output positions t.

Several exact ways lead to its squared norm (`convolution_squares`); which is cheapest follows from the shapes.
A transposed convolution is the same with input and output gradient exchanged.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import nn
from torch.nn import functional as F

from gradorder.scores.layers.convolution_squares import (
    Geometry,
    batch_gradient,
    convolution_squares,
    weight_gradients,
)
from gradorder.scores.layers.forms import Dense, Form
from gradorder.scores.layers.normalization import per_channel


@final
@dataclass(frozen=True, eq=False)
class ConvolutionSum:
    """The weight gradients of a convolution with these inputs and output gradients."""

    inputs: torch.Tensor
    gradient: torch.Tensor
    geometry: Geometry

    def squares(self) -> torch.Tensor:
        """By the cheapest way for these shapes."""
        return convolution_squares(self.inputs, self.gradient, self.geometry)

    def dense(self) -> torch.Tensor:
        """(B, weight.numel())."""
        return weight_gradients(self.inputs, self.gradient, self.geometry)

    def total(self) -> torch.Tensor:
        """The weight gradient of the whole batch."""
        return batch_gradient(self.inputs, self.gradient, self.geometry)


def convolution(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """Conv1d, Conv2d and Conv3d with any stride, padding, dilation, groups and padding mode."""
    assert isinstance(layer, nn.modules.conv._ConvNd)  # noqa: S101, SLF001 - the common base has no public name
    padding: tuple[int, ...] = (0,) * len(layer.kernel_size)
    if layer.padding_mode != "zeros" or layer.padding == "same":
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        inputs = F.pad(inputs, layer._reversed_padding_repeated_twice, mode=mode)  # noqa: SLF001 - as its forward does
    elif not isinstance(layer.padding, str):  # "valid" is no padding
        padding = tuple(layer.padding)
    geometry = Geometry(tuple(layer.weight.shape), tuple(layer.stride), padding, tuple(layer.dilation), layer.groups)
    return {"weight": ConvolutionSum(inputs, gradient, geometry), "bias": Dense(per_channel(gradient))}


def transposed_convolution(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """ConvTranspose1d to 3d: the forward pass is a convolution's backward pass, so inputs and gradients swap."""
    assert isinstance(layer, nn.modules.conv._ConvTransposeNd)  # noqa: S101, SLF001
    assert not isinstance(layer.padding, str)  # noqa: S101 - transposed convolutions take numbers only
    geometry = Geometry(
        tuple(layer.weight.shape), tuple(layer.stride), tuple(layer.padding), tuple(layer.dilation), layer.groups
    )
    return {"weight": ConvolutionSum(gradient, inputs, geometry), "bias": Dense(per_channel(gradient))}

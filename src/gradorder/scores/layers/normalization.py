"""Normalisation layers: y = gamma * x_hat + beta, so d gamma = sum g x_hat and d beta = sum g.

The sums run over whatever positions share a gamma. x_hat depends on the example alone, except in BatchNorm
with batch statistics, which has no per-example gradient.
"""

import torch
from torch import nn
from torch.nn import functional as F

from gradorder.scores.layers.forms import Dense, Form


def batch_norm(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """With running statistics: x_hat = (x - mean) / sqrt(var + eps), so sum g x_hat needs sum g x and sum g only."""
    assert isinstance(layer, nn.modules.batchnorm._BatchNorm)  # noqa: S101, SLF001 - the common base has no public name
    assert layer.running_mean is not None  # noqa: S101 - refused before
    assert layer.running_var is not None  # noqa: S101
    sums = per_channel(gradient)
    products = products_per_channel(gradient, inputs)
    scale = torch.rsqrt(layer.running_var + layer.eps)
    return {"weight": Dense((products - layer.running_mean * sums) * scale), "bias": Dense(sums)}


def layer_norm(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """Over the last dimensions; gamma has their shape."""
    assert isinstance(layer, nn.LayerNorm)  # noqa: S101
    shape = layer.normalized_shape
    normal = F.layer_norm(inputs, shape, eps=layer.eps)
    return {"weight": Dense(_per_entry(gradient * normal, shape)), "bias": Dense(_per_entry(gradient, shape))}


def rms_norm(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """As LayerNorm, without a mean and without beta."""
    assert isinstance(layer, nn.RMSNorm)  # noqa: S101
    shape = layer.normalized_shape
    normal = F.rms_norm(inputs, shape, eps=layer.eps)
    return {"weight": Dense(_per_entry(gradient * normal, shape))}


def group_norm(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """Over groups of channels of one example."""
    assert isinstance(layer, nn.GroupNorm)  # noqa: S101
    normal = F.group_norm(inputs, layer.num_groups, eps=layer.eps)
    return {"weight": Dense(products_per_channel(gradient, normal)), "bias": Dense(per_channel(gradient))}


def instance_norm(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """Over the positions of one channel of one example, or by running statistics."""
    assert isinstance(layer, nn.modules.instancenorm._InstanceNorm)  # noqa: S101, SLF001 - as above
    own = layer.training or not layer.track_running_stats
    mean, variance = (None, None) if own else (layer.running_mean, layer.running_var)
    normal = F.instance_norm(inputs, mean, variance, use_input_stats=own, eps=layer.eps)
    return {"weight": Dense(products_per_channel(gradient, normal)), "bias": Dense(per_channel(gradient))}


def per_channel(values: torch.Tensor) -> torch.Tensor:
    """(B, C, ...) summed over positions."""
    return values.flatten(2).sum(2) if values.ndim > 2 else values  # noqa: PLR2004 - (B, C)


def products_per_channel(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """The product of two (B, C, ...) summed over positions, without writing it down."""
    if first.ndim == 2:  # noqa: PLR2004 - (B, C)
        return first * second
    products: torch.Tensor = torch.linalg.vecdot(first.flatten(2), second.flatten(2))
    return products


def _per_entry(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """(B, ..., *shape) summed over the positions in between."""
    return values.reshape(len(values), -1, *shape).sum(1)

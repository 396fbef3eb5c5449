"""nn.PReLU: y = max(x, 0) + a min(x, 0), so da = sum g min(x, 0)."""

import torch
from torch import nn

from gradorder.scores.layers.forms import Dense, Form
from gradorder.scores.layers.normalization import per_channel


def prelu(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """One slope for all, or one per channel."""
    assert isinstance(layer, nn.PReLU)  # noqa: S101
    products = gradient * inputs.clamp(max=0)
    if layer.num_parameters == 1:
        return {"weight": Dense(products.flatten(1).sum(1, keepdim=True))}
    return {"weight": Dense(per_channel(products))}

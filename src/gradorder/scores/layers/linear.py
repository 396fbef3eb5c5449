"""nn.Linear: z_t = W a_t + b at each position t, so dW = sum_t g_t a_t' and db = sum_t g_t."""

import torch
from torch import nn

from gradorder.scores.layers.forms import Dense, Form, OuterSum


def linear(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """Gradients of weight and bias from inputs (B, ..., d) and output gradients (B, ..., p)."""
    del layer
    return outer(inputs, gradient)


def outer(inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """The same without a layer. With one position ||dW||^2 = ||g||^2 ||a||^2 and nothing is ever summed."""
    if inputs.ndim == 2:  # noqa: PLR2004 - (B, d)
        bias = Dense(gradient)
        return {"weight": OuterSum(gradient.unsqueeze(1), inputs.unsqueeze(1), only_left=bias), "bias": bias}
    right, left = inputs.flatten(1, -2), gradient.flatten(1, -2)
    return {"weight": OuterSum(left, right), "bias": Dense(left.sum(1))}

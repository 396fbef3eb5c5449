"""Gradients one example at a time with plain autograd: slow, obvious, and the oracle for everything faster.

For example i of a batch, f_i(w) is its loss and g_i = grad f_i(w) its gradient over all trainable
parameters, flattened and joined in the order of `model.parameters()`. The score is ||g_i||_2.
"""

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch, num_examples, take
from gradorder.losses import Losses, cross_entropy
from gradorder.precision import widened
from gradorder.scores.undisturbed import undisturbed
from gradorder.scores.wrapped import unwrapped, with_whole_parameters


def per_example_gradients(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """The rows g_i, shape (B, P)."""
    model = with_whole_parameters(unwrapped(model))
    parameters = trainable_parameters(model)
    with undisturbed(model), torch.inference_mode(mode=False), torch.enable_grad():
        rows = [
            _gradient(model, parameters, take(batch, torch.tensor([i])), losses or cross_entropy)
            for i in range(num_examples(batch))
        ]
    return torch.stack(rows)


def gradient_norms(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """The norms ||g_i||_2, shape (B,)."""
    rows = per_example_gradients(model, batch, losses)
    # Not vector_norm: over millions of float32 entries it was off by 4e-4, a dot product by 1e-7.
    squares: torch.Tensor = torch.linalg.vecdot(rows, rows)
    return squares.sqrt()


def trainable_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that count, each once however often it is shared."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(
            "model must have at least one parameter with requires_grad=True: without one every gradient is empty"
        )
    return parameters


def _gradient(model: nn.Module, parameters: list[nn.Parameter], example: Batch, losses: Losses) -> torch.Tensor:
    loss = checks.per_example("losses", losses(model, example), 1)
    gradients = torch.autograd.grad(loss[0], parameters, allow_unused=True, materialize_grads=True)
    return torch.cat([widened(gradient.flatten()) for gradient in gradients])

"""The definition, literally: one backward pass per loss of the batch. Slow; the oracle of the tests."""

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch, num_examples
from gradorder.losses import Losses, cross_entropy
from gradorder.norms.factored import row_squares
from gradorder.norms.isolation import flat_gradient
from gradorder.norms.model_state import differentiable, trainable_parameters, unwrapped


def per_example_gradients(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """The gradient of each loss, shape (B, P), in the order of `model.parameters()`."""
    model = unwrapped(model)
    with differentiable(model):
        parameters = trainable_parameters(model)
        values = checks.per_example("losses", (losses or cross_entropy)(model, batch), num_examples(batch))
        rows = [flat_gradient(value, parameters, retain_graph=True) for value in values]
    return torch.stack(rows) if rows else torch.zeros(0, sum(parameter.numel() for parameter in parameters))


def gradient_norms(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """The norm of each loss's gradient, shape (B,)."""
    return row_squares(per_example_gradients(model, batch, losses)).sqrt()

"""Per-example gradients of any model by torch.func: no knowledge of its layers needed.

The gradients of a chunk of examples are taken at once with torch.func and reduced to their norms before the
next chunk, so that memory stays bounded by a fixed number of gradient entries, whatever the batch.
Models that torch.func cannot vectorise (LSTM, GRU, control flow that depends on data) go one example at a
time: slower, the same numbers.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from gradorder import checks
from gradorder.batches import Batch, has_only_tensor_rows, num_examples, row_tensors, with_row_tensors
from gradorder.losses import Losses, cross_entropy
from gradorder.precision import widened
from gradorder.scores import reference
from gradorder.scores.layers.fallback import slow_batching_allowed
from gradorder.scores.undisturbed import undisturbed
from gradorder.scores.wrapped import unwrapped, with_whole_parameters

MAX_GRADIENT_ENTRIES = 2**24
"""Gradient entries held at once: 64 MiB in float32."""


def gradient_norms(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """The norms ||grad f_i(w)||_2 of a batch, shape (B,); whatever the model."""

    def norm(gradients: list[torch.Tensor]) -> torch.Tensor:
        flat = [widened(gradient.flatten()) for gradient in gradients]
        return torch.stack([torch.dot(each, each) for each in flat]).sum().sqrt()

    return _per_example(model, batch, losses, norm, reference.gradient_norms)


def per_example_gradients(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """The gradients themselves, shape (B, P): one row per example, in the order of `model.parameters()`.

    Frozen parameters have no columns and a shared parameter has its columns once.
    """

    def row(gradients: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([widened(gradient.flatten()) for gradient in gradients])

    return _per_example(model, batch, losses, row, reference.per_example_gradients)


def _per_example(
    model: nn.Module,
    batch: Batch,
    losses: Losses | None,
    reduce: Callable[[list[torch.Tensor]], torch.Tensor],
    one_at_a_time: Callable[[nn.Module, Batch, Losses | None], torch.Tensor],
) -> torch.Tensor:
    """`reduce` of each example's gradients, vectorised over chunks of examples."""
    model, size = with_whole_parameters(unwrapped(model)), num_examples(batch)
    if not has_only_tensor_rows(batch) or any(isinstance(module, nn.RNNBase) for module in model.modules()):
        return one_at_a_time(model, batch, losses)
    parameters = reference.trainable_parameters(model)
    num_entries = sum(parameter.numel() for parameter in parameters)
    chunk_size = max(1, min(size, MAX_GRADIENT_ENTRIES // num_entries))
    wrapped = _ExampleLoss(model, losses or cross_entropy, batch)
    trainable = {name: parameter.detach() for name, parameter in wrapped.named_parameters() if parameter.requires_grad}
    loss_gradients = grad(lambda weights, *example: functional_call(wrapped, weights, example))

    def reduced(*example: torch.Tensor) -> torch.Tensor:
        return reduce(list(loss_gradients(trainable, *example).values()))

    with undisturbed(model), torch.inference_mode(mode=False):
        try:
            with slow_batching_allowed():
                result = vmap(reduced, chunk_size=chunk_size)(*row_tensors(batch))
        except RuntimeError:
            # Not vectorisable, or plainly wrong: the loop gives the numbers, or the user's own error.
            return one_at_a_time(model, batch, losses)
    return result.detach()


class _ExampleLoss(nn.Module):
    """The loss of one example as a module, so that `functional_call` reaches the weights of the user's model."""

    def __init__(self, model: nn.Module, losses: Losses, batch: Batch) -> None:
        super().__init__()
        self.model = model
        self._losses = losses
        self._batch = batch

    def forward(self, *example: torch.Tensor) -> torch.Tensor:
        rows = [tensor.unsqueeze(0) for tensor in example]
        losses = self._losses(self.model, with_row_tensors(self._batch, rows))
        return checks.per_example("losses", losses, 1)[0]

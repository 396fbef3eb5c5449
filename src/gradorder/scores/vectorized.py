"""Per-example gradients of any model by torch.func: no knowledge of its layers needed.

The gradients of a chunk of examples are taken at once with torch.func and reduced to their norms before the
next chunk, so that memory stays bounded by a fixed number of gradient entries, whatever the batch.
Models that torch.func cannot vectorise (recurrent layers, control flow that depends on data) go one example at a
time: slower, the same numbers.
"""

from collections.abc import Callable
from weakref import WeakSet

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from gradorder import checks
from gradorder.batches import Batch, has_only_tensor_rows, num_examples, row_tensors, with_row_tensors
from gradorder.errors import is_out_of_memory
from gradorder.losses import Losses, cross_entropy
from gradorder.precision import widened
from gradorder.scores import reference
from gradorder.scores.batching import slow_batching_allowed
from gradorder.scores.undisturbed import undisturbed
from gradorder.scores.wrapped import unwrapped, with_whole_parameters

MAX_GRADIENT_ENTRIES = 2**24
"""Gradient entries held at once: 64 MiB in float32."""


def norms_and_losses(model: nn.Module, batch: Batch, losses: Losses) -> tuple[torch.Tensor, torch.Tensor]:
    """The norms ||grad f_i(w)||_2 and the losses f_i(w) of the examples, each taken alone; shapes (B,)."""

    def norm(gradients: list[torch.Tensor]) -> torch.Tensor:
        flat = [widened(gradient.to_dense().flatten()) for gradient in gradients]
        squares = [torch.linalg.vecdot(each, each).real for each in flat]
        return torch.stack(squares).sum().sqrt()

    return _per_example(model, batch, losses, norm)


def per_example_gradients(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """The gradients themselves, shape (B, P): one row per example, in the order of `model.parameters()`.

    Frozen parameters have no columns and a shared parameter has its columns once.
    """
    return _per_example(model, batch, losses or cross_entropy, reference.joined)[0]


Reduce = Callable[[list[torch.Tensor]], torch.Tensor]


def _per_example(model: nn.Module, batch: Batch, losses: Losses, reduce: Reduce) -> tuple[torch.Tensor, torch.Tensor]:
    """`reduce` of each example's gradients, and its loss."""
    model = with_whole_parameters(unwrapped(model))
    if _may_be_vectorised(model, batch):
        try:
            return _vectorised(model, batch, losses, reduce)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            # Not vectorisable, or plainly wrong: the loop gives the numbers, or the user's own error.
            _not_vectorisable.add(model)
    return reference.one_at_a_time(model, batch, losses, reduce)


def _may_be_vectorised(model: nn.Module, batch: Batch) -> bool:
    """Hooks of the parameters would not be called: the gradients are those of stand-ins."""
    if model in _not_vectorisable or reference.has_hooks(model.parameters()):
        return False
    return has_only_tensor_rows(batch) and num_examples(batch) > 0


_not_vectorisable: WeakSet[nn.Module] = WeakSet()
"""Models on which torch.func has failed: not to be tried again, as a failure takes its time."""


def _vectorised(model: nn.Module, batch: Batch, losses: Losses, reduce: Reduce) -> tuple[torch.Tensor, torch.Tensor]:
    wrapped = _ExampleLoss(model, losses, batch)
    differentiated = grad_and_value(lambda weights, *example: functional_call(wrapped, weights, example))

    def reduced(*example: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gradients, loss = differentiated(trainable, *example)
        return reduce(list(gradients.values())), loss

    # With grad, so that the losses show whether anything but the stand-ins of the parameters was differentiable.
    with undisturbed(model), torch.inference_mode(mode=False), torch.enable_grad(), slow_batching_allowed():
        trainable = {name: each.detach() for name, each in wrapped.named_parameters() if each.requires_grad}
        num_entries = sum(parameter.numel() for parameter in reference.trainable_parameters(model))
        chunk_size = max(1, min(num_examples(batch), MAX_GRADIENT_ENTRIES // num_entries))
        results, values = vmap(reduced, chunk_size=chunk_size)(*row_tensors(batch))
    if values.requires_grad:
        raise RuntimeError("a parameter is reached by another way than the model's attributes: it has no stand-in")
    return results.detach(), values.detach()


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

"""Gradients one example at a time with plain autograd: slow, obvious, and the oracle for everything faster.

For example i of a batch, f_i(w) is its loss and g_i = grad f_i(w) its gradient over all trainable
parameters, flattened and joined in the order of `model.parameters()`. The score is ||g_i||_2.
"""

from collections.abc import Callable, Iterable

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
    return one_at_a_time(with_whole_parameters(unwrapped(model)), batch, losses or cross_entropy, joined)[0]


def gradient_norms(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """The norms ||g_i||_2, shape (B,)."""
    rows = per_example_gradients(model, batch, losses)
    # Not vector_norm: over millions of float32 entries it was off by 4e-4, a dot product by 1e-7.
    squares: torch.Tensor = torch.linalg.vecdot(rows, rows)
    return squares.real.sqrt()


def one_at_a_time(
    model: nn.Module, batch: Batch, losses: Losses, reduce: Callable[[list[torch.Tensor]], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """`reduce` of each example's gradients, and its loss, each of shape (B, ...)."""
    parameters = trainable_parameters(model)
    results, values = [], []
    with undisturbed(model), torch.inference_mode(mode=False), torch.enable_grad():
        for i in range(num_examples(batch)):
            loss = checks.per_example("losses", losses(model, take(batch, torch.tensor([i]))), 1)[0]
            results.append(reduce(_gradients(loss, parameters)))
            values.append(loss.detach())
    if not results:
        empty = reduce([torch.zeros_like(parameter) for parameter in parameters])
        return empty.new_zeros(0, *empty.shape), empty.new_zeros(0)
    return torch.stack(results), torch.stack(values)


def _gradients(loss: torch.Tensor, parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    if not loss.requires_grad:
        return [torch.zeros_like(parameter) for parameter in parameters]
    return list(torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True))


def joined(gradients: list[torch.Tensor]) -> torch.Tensor:
    """The gradients of all parameters one behind the other."""
    return torch.cat([widened(gradient.to_dense().flatten()) for gradient in gradients])


def has_hooks(parameters: Iterable[torch.Tensor]) -> bool:
    """Whether a hook may change the gradient of one of them (`register_hook`), which only plain autograd runs.

    Hooks that are called when a gradient has been added to `.grad` change no gradient: processes exchange theirs there.
    """
    return any(parameter._backward_hooks for parameter in parameters)  # noqa: SLF001 - no public way


def trainable_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that count, each once however often it is shared."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(
            "model must have at least one parameter with requires_grad=True: without one every gradient is empty"
        )
    return parameters

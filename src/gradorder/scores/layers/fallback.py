"""Any other module with parameters of its own: the gradient of that module alone, example by example.

With the output gradients G of a module known, the gradient of its parameters is that of <module(inputs), G>. It is
taken for one example at a time, vectorised over the examples where torch can (not for recurrent layers). Which rows
belong to which example is a guess for a module nobody knows, so the result is checked: the gradients of the examples
must add up to the gradient of the whole batch.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from gradorder.scores.layers.forms import Dense, Form
from gradorder.scores.nested import Nested, flattened

_SUM_TOLERANCE = 1e-3


class UnknownLayoutError(RuntimeError):
    """The examples of a batch cannot be told apart inside a module."""


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """One call of a module: its arguments and the gradients that reached its outputs (None where none did)."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    gradients: Sequence[torch.Tensor | None]


def fallback(call: ModuleCall, names: Sequence[str], num_examples: int) -> dict[str, Form]:
    """The per-example gradients of the named parameters of the module itself."""
    if all(gradient is None for gradient in call.gradients):
        return {}
    weights = {name: parameter.detach() for name, parameter in call.module.named_parameters() if name in names}
    flat, rebuild = flattened((call.args, call.kwargs))
    gradients = [g for g in call.gradients if g is not None]
    has_gradient = [g is not None for g in call.gradients]
    dims = [*_input_dims(call.module, flat, num_examples), *_output_dims(call.module, call.gradients)]

    def product(weights: dict[str, torch.Tensor], *tensors: torch.Tensor) -> torch.Tensor:
        args, kwargs = rebuild(tensors[: len(flat)])
        outputs, _ = flattened(functional_call(call.module, weights, args, kwargs))
        used = [output for output, has in zip(_differentiable(outputs), has_gradient, strict=True) if has]
        return torch.stack([(o * g).sum() for o, g in zip(used, tensors[len(flat) :], strict=True)]).sum()

    tensors = [*flat, *gradients]
    rows = _rows(call.module, product, weights, tensors, dims)
    whole = grad(product)(weights, *tensors)
    for name, each in rows.items():
        _check_sum(call.module, each, whole[name])
    return {name: Dense(each) for name, each in rows.items()}


@contextmanager
def slow_batching_allowed() -> Iterator[None]:
    """Operations that vmap runs one by one inside: as exact, and no news to the user."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield


Product = Callable[..., torch.Tensor]


def _rows(
    module: nn.Module,
    product: Product,
    weights: dict[str, torch.Tensor],
    tensors: list[torch.Tensor],
    dims: list[int | None],
) -> dict[str, torch.Tensor]:
    """The gradient of `product` for each example; `dims` says which dimension of a tensor counts the examples."""

    def one(*example: torch.Tensor) -> dict[str, torch.Tensor]:
        kept = [t if dim is None else t.unsqueeze(dim) for t, dim in zip(example, dims, strict=True)]
        gradients: dict[str, torch.Tensor] = grad(product)(weights, *kept)
        return gradients

    if not any(isinstance(part, nn.RNNBase) for part in module.modules()):
        try:
            with slow_batching_allowed():
                vectorised: dict[str, torch.Tensor] = vmap(one, in_dims=tuple(dims))(*tensors)
        except RuntimeError:
            pass  # torch has no batching rule for something in there
        else:
            return vectorised
    num_examples = next(t.shape[dim] for t, dim in zip(tensors, dims, strict=True) if dim is not None)
    each = [
        one(*(t if dim is None else t.select(dim, i) for t, dim in zip(tensors, dims, strict=True)))
        for i in range(num_examples)
    ]
    return {name: torch.stack([gradients[name] for gradients in each]) for name in weights}


def _input_dims(module: nn.Module, tensors: list[torch.Tensor], num_examples: int) -> list[int | None]:
    if isinstance(module, nn.RNNBase):
        return _recurrent_dims(module, len(tensors))
    return [0 if t.ndim > 0 and len(t) == num_examples else None for t in tensors]


def _output_dims(module: nn.Module, gradients: Sequence[torch.Tensor | None]) -> list[int | None]:
    is_recurrent = isinstance(module, nn.RNNBase)
    dims = _recurrent_dims(module, len(gradients)) if is_recurrent else [0] * len(gradients)
    return [dim for dim, gradient in zip(dims, gradients, strict=True) if gradient is not None]


def _recurrent_dims(module: nn.Module, count: int) -> list[int | None]:
    """The sequences first, then states of shape (layers, B, d)."""
    return [0 if module.batch_first else 1, *([1] * (count - 1))]


def _check_sum(module: nn.Module, rows: torch.Tensor, whole: torch.Tensor) -> None:
    scale = rows.abs().sum(0).max() + torch.finfo(rows.dtype).tiny
    if (rows.sum(0) - whole).abs().max() > _SUM_TOLERANCE * scale:
        raise UnknownLayoutError(
            f"the rows of {type(module).__name__} do not belong to one example each, "
            "or it draws random numbers (dropout)"
        )


def _differentiable(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor for tensor in tensors if tensor.is_floating_point()]


def output_tensors(output: Nested) -> list[torch.Tensor]:
    """The tensors of a module's output that can have a gradient, in the order of `ModuleCall.gradients`."""
    return _differentiable(flattened(output)[0])

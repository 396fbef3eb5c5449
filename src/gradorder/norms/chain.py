"""A chain of linear layers and ReLUs, differentiated by hand.

The forward pass keeps the input a of each linear layer. The backward pass starts from the loss gradient g at the
outputs, adds |g|^2 (|a|^2 + 1) for each linear layer and continues with g W, cut where the ReLU was zero. There is no
graph and there are no weight gradients: for a small network their overhead would be most of the time.

No graph proves the result here. So the chain is used only if the model cannot differ from the code below: its classes
are exactly torch's, none of the functions that they run is patched, its modules have no hooks and no attributes of
their own, and no `TorchFunctionMode` or `TorchDispatchMode` is active. In all other cases the graph is used.
"""

from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from gradorder.batches import Batch
from gradorder.losses import Losses, cross_entropy, squared_error
from gradorder.norms.factored import row_squares
from gradorder.norms.walk import has_hooks

_MATRIX = 2
_LINKS = (nn.Linear, nn.ReLU, nn.Flatten, nn.Identity)
_OF_LINEAR = {"weight", "bias"}
_ATTRIBUTES = frozenset(
    [
        "training",
        "_parameters",
        "_buffers",
        "_modules",
        "_non_persistent_buffers_set",
        "_backward_pre_hooks",
        "_backward_hooks",
        "_is_full_backward_hook",
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
        "in_features",
        "out_features",
        "inplace",
        "start_dim",
        "end_dim",
    ]
)
"""The attributes of unchanged modules; an instance with another one, such as a `forward` of its own, is no link."""
_DTYPES = (torch.float32, torch.float64)
_INDEX_DTYPES = (torch.int64, torch.uint8)
_GLOBAL_HOOKS = tuple(
    f"_global_{name}_hooks" for name in ("forward_pre", "forward", "backward_pre", "backward")
)  # torch has no public way to ask, and not every supported version has a function of its own
_OF_MODULES = vars(nn.modules.module)
_CALLED: tuple[tuple[Any, str], ...] = (
    *((kind, "forward") for kind in (*_LINKS, nn.Sequential)),
    *((nn.Module, name) for name in ("__call__", "_wrapped_call_impl", "_call_impl", "__getattr__")),
    (nn.Sequential, "__iter__"),
    *((F, name) for name in ("linear", "relu", "cross_entropy")),
)
_ORIGINALS = [(owner, name, vars(owner)[name]) for owner, name in _CALLED]
"""The functions that a chain runs, to notice if somebody patches one."""


def _is_of_torch(function: object) -> bool:
    """True unless the function was patched before this module was imported."""
    return not isinstance(function, FunctionType) or function.__module__.startswith("torch.")


_WERE_ORIGINAL = all(_is_of_torch(function) for _, _, function in _ORIGINALS)


def gradient_norms(model: nn.Module, batch: Batch, losses: Losses) -> torch.Tensor | None:
    """The norms of a batch, shape (B,); None if the model, the losses or the batch is of another kind."""
    loss_gradient = next((gradient for loss, gradient in _LOSS_GRADIENTS if loss is losses), None)
    if loss_gradient is None or not _is_torch_unchanged():
        return None
    layers = _links(model)
    inputs, targets = _pair(batch)
    if layers is None or inputs is None or targets is None:
        return None
    with torch.no_grad():
        kept, outputs = _forward(layers, inputs)
        gradient = None if outputs is None else loss_gradient(outputs, targets)
        return None if gradient is None else _backward(layers, kept, gradient).sqrt_()


def _is_torch_unchanged() -> bool:
    """True if no mode is active, no hook is on all modules, and no function that a chain runs is patched."""
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():  # noqa: SLF001 - no public way
        return False
    # Plain loops: for a linear regression, generators would take a tenth of the time.
    for name in _GLOBAL_HOOKS:
        if _OF_MODULES[name]:
            return False
    for owner, name, original in _ORIGINALS:
        if getattr(owner, name) is not original:
            return False
    return _WERE_ORIGINAL


def _links(model: nn.Module) -> list[nn.Module] | None:
    """The layers, if the model is a chain, all of it is trained in full precision, and its parts are unchanged."""
    if type(model) is nn.Linear:
        found: list[nn.Module] = [model]
    elif type(model) is nn.Sequential and _is_unchanged(model):
        found = list(model._modules.values())  # noqa: SLF001 - a plain read, many times faster
    else:
        return None
    parameters: list[torch.Tensor] = []
    for layer in found:
        if type(layer) not in _LINKS or not _is_unchanged(layer) or not _is_plain(layer):
            return None
        parameters.extend(p for p in layer._parameters.values() if p is not None)  # noqa: SLF001
    is_simple = all(type(p) is nn.Parameter and p.requires_grad and p.dtype in _DTYPES for p in parameters)
    is_shared = len({id(p) for p in parameters}) < len(parameters)
    if not parameters or not is_simple or is_shared or any(map(has_hooks, parameters)):
        return None
    return None if torch.is_autocast_enabled(parameters[0].device.type) else found


def _is_unchanged(module: nn.Module) -> bool:
    return vars(module).keys() <= _ATTRIBUTES and not (
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks  # noqa: SLF001 - no public way
    )


def _is_plain(layer: nn.Module) -> bool:
    """True if a layer does what its class says."""
    if isinstance(layer, nn.Flatten):
        return (layer.start_dim, layer.end_dim) == (1, -1)
    if not isinstance(layer, nn.Linear):
        return True
    own = layer._parameters  # noqa: SLF001
    # Somebody may have put a buffer in the place of the weight or the bias.
    return own.get("weight") is not None and own.keys() <= _OF_LINEAR and layer.bias is own.get("bias")


def _pair(batch: Batch) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    is_pair = isinstance(batch, list | tuple) and len(batch) == _MATRIX
    if not is_pair or not all(type(part) is torch.Tensor for part in batch) or not 0 < len(batch[0]) == len(batch[1]):
        return None, None
    return batch[0], batch[1]


def _forward(layers: list[nn.Module], inputs: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    """The input of each linear layer and the output of each ReLU, in order, and the output of the chain."""
    kept = []
    values, is_ours = inputs, False
    for layer in layers:
        if isinstance(layer, nn.Linear):
            if values.ndim != _MATRIX:
                return [], None
            kept.append(values)
            values, is_ours = F.linear(values, layer.weight, layer.bias), True
        elif isinstance(layer, nn.ReLU):
            values = values.relu_() if is_ours else values.relu()
            kept.append(values)
        elif isinstance(layer, nn.Flatten):
            values = values.flatten(1)
    return kept, values


def _backward(layers: list[nn.Module], kept: list[torch.Tensor], gradient: torch.Tensor) -> torch.Tensor:
    squares: torch.Tensor | None = None
    remaining = list(kept)
    last = next(i for i, layer in enumerate(layers) if isinstance(layer, nn.Linear))
    for position in range(len(layers) - 1, last - 1, -1):
        layer = layers[position]
        if isinstance(layer, nn.Linear):
            inputs = row_squares(remaining.pop())
            added = row_squares(gradient).mul_(inputs if layer.bias is None else inputs.add_(1))
            squares = added if squares is None else squares.add_(added)
            if position > last:
                gradient = gradient @ layer.weight
        elif isinstance(layer, nn.ReLU):
            gradient = torch.ops.aten.threshold_backward(gradient, remaining.pop(), 0)
    assert squares is not None  # noqa: S101 - a chain has a linear layer
    return squares


def _cross_entropy_gradient(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
    """softmax(z) - onehot(y), for class indices of the types that torch takes."""
    if logits.ndim != _MATRIX or logits.shape[1] < 2 or targets.ndim != 1 or targets.dtype not in _INDEX_DTYPES:  # noqa: PLR2004 - classes
        return None
    if bool((targets < 0).any()):
        return None  # ignored targets
    gradient = logits.softmax(1)
    index = targets.long().unsqueeze(1)
    gradient.scatter_(1, index, 0.0)
    return gradient.scatter_(1, index, -gradient.sum(1, keepdim=True))


def _squared_error_gradient(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
    """2 (y - t) / number of outputs, in the precision of the outputs, as autograd returns it."""
    if outputs.numel() != targets.numel():
        return None
    return (outputs - targets.reshape(outputs.shape)).mul_(2 / outputs.shape[1]).to(outputs.dtype)


_LOSS_GRADIENTS = ((cross_entropy, _cross_entropy_gradient), (squared_error, _squared_error_gradient))

"""A chain of linear layers and ReLUs, differentiated by hand.

Forward keeps the input a of each linear layer. Backward starts from the loss gradient g at the outputs, adds
||g||^2 (||a||^2 + 1) for each linear layer and goes on with g W, cut where the ReLU was closed. No graph, no hooks,
no weight gradients: for a small network their overhead would be most of the time.
"""

import torch
from torch import nn
from torch.nn import functional as F

from gradorder.batches import Batch
from gradorder.losses import Losses, cross_entropy, squared_error
from gradorder.scores.graph.forms import row_squares
from gradorder.scores.reference import has_hooks

_MATRIX = 2
_LINKS = (nn.Linear, nn.ReLU, nn.Flatten, nn.Identity)
_OF_LINEAR = {"weight", "bias"}
_DTYPES = (torch.float32, torch.float64)
_INDEX_DTYPES = (torch.int64, torch.uint8)
_GLOBAL_HOOKS = tuple(
    f"_global_{name}_hooks" for name in ("forward_pre", "forward", "backward_pre", "backward")
)  # torch has no public way to ask, and not every version that we support a function of its own


def chain_of(model: nn.Module) -> list[nn.Module] | None:
    """The layers, if the model is a chain, all of it is trained, in full precision, and nobody watches its parts."""
    if any(vars(nn.modules.module)[name] for name in _GLOBAL_HOOKS):
        return None
    if type(model) is nn.Linear and not _is_watched(model):
        found: list[nn.Module] = [model]
    elif type(model) is nn.Sequential and not _is_watched(model):
        found = list(model._modules.values())  # noqa: SLF001 - a plain read, many times faster
    else:
        return None
    parameters: list[nn.Parameter] = []
    for layer in found:
        if type(layer) not in _LINKS or _is_watched(layer) or not _is_plain(layer):
            return None
        parameters.extend(p for p in layer._parameters.values() if p is not None)  # noqa: SLF001
    is_simple = all(p.requires_grad and p.dtype in _DTYPES for p in parameters) and not has_hooks(parameters)
    is_shared = len({id(p) for p in parameters}) < len(parameters)
    if not parameters or not is_simple or is_shared or torch.is_autocast_enabled(parameters[0].device.type):
        return None
    return found


def norms_by_hand(layers: list[nn.Module], batch: Batch, losses: Losses) -> torch.Tensor | None:
    """The norms of a batch, shape (B,), for a known loss; None if the loss or the batch is of another kind."""
    if losses not in _LOSS_GRADIENTS:
        return None
    inputs, targets = _pair(batch)
    if inputs is None or targets is None:
        return None
    with torch.no_grad():
        kept, outputs = _forward(layers, inputs)
        gradient = None if outputs is None else _LOSS_GRADIENTS[losses](outputs, targets)
        return None if gradient is None else _backward(layers, kept, gradient).sqrt_()


def _is_watched(module: nn.Module) -> bool:
    return "forward" in module.__dict__ or bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks  # noqa: SLF001 - no public way
    )


def _is_plain(layer: nn.Module) -> bool:
    """Whether a link does what its class says."""
    if isinstance(layer, nn.Flatten):
        return (layer.start_dim, layer.end_dim) == (1, -1)
    if not isinstance(layer, nn.Linear):
        return True
    own = layer._parameters  # noqa: SLF001
    # Someone may have put a buffer in the place of the weight or the bias.
    return own.get("weight") is not None and own.keys() <= _OF_LINEAR and layer.bias is own.get("bias")


def _pair(batch: Batch) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    is_pair = isinstance(batch, list | tuple) and len(batch) == _MATRIX
    if (
        not is_pair
        or not all(isinstance(part, torch.Tensor) for part in batch)
        or not 0 < len(batch[0]) == len(batch[1])
    ):
        return None, None
    return batch[0], batch[1]


def _forward(layers: list[nn.Module], inputs: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    """The input of every linear layer and the output of every ReLU, in order, and the output of the chain."""
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
        return None  # targets to be left out
    gradient = logits.softmax(1)
    index = targets.long().unsqueeze(1)
    gradient.scatter_(1, index, 0.0)
    return gradient.scatter_(1, index, -gradient.sum(1, keepdim=True))


def _squared_error_gradient(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
    """2 (y - t) / number of outputs, in the precision of the outputs, to which autograd comes back, too."""
    if outputs.numel() != targets.numel():
        return None
    return (outputs - targets.reshape(outputs.shape)).mul_(2 / outputs.shape[1]).to(outputs.dtype)


_LOSS_GRADIENTS = {cross_entropy: _cross_entropy_gradient, squared_error: _squared_error_gradient}

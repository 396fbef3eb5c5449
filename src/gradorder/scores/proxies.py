"""Forward-only scores: cheaper than an exact norm, and close to it where the last layer dominates."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn
from torch.func import functional_call

from gradorder import checks
from gradorder.batches import Batch, num_examples
from gradorder.losses import IGNORED_TARGET, Losses, check_classes, cross_entropy, inputs_and_targets, num_targets
from gradorder.precision import widened
from gradorder.scores.graph import UnprovenError, walk
from gradorder.scores.graph.forms import OuterSum, row_squares
from gradorder.scores.graph.place import Place, examples_first
from gradorder.scores.loss_module import LossModule
from gradorder.scores.undisturbed import undisturbed
from gradorder.scores.wrapped import unwrapped, with_whole_parameters

Logits = Callable[[nn.Module, Batch], tuple[torch.Tensor, torch.Tensor]]
"""Logits (B, C, ...) and targets (B, ...) of a batch."""


@final
@dataclass(frozen=True)
class Loss:
    """The loss f_i(w) of each example.

    Args:
        losses: a function `(model, batch) -> (B,)`; cross-entropy of `(inputs, targets)` if not given.
    """

    losses: Losses | None = None

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """One score per example, shape (B,)."""
        model, size = unwrapped(model), num_examples(batch)
        with undisturbed(model), torch.no_grad():
            losses = checks.per_example("losses", (self.losses or cross_entropy)(model, batch), size)
        return widened(losses.detach())


@final
@dataclass(frozen=True)
class LogitError:
    """||softmax(z) - onehot(y)||_2, the norm of the cross-entropy gradient at the logits.

    The paper's score for large networks ("predicted worst first"). Where an example has several targets
    (logits (B, C, T), targets (B, T)), it is the norm over all of them of the gradient of their mean loss,
    targets equal to -100 left out. Targets may be class probabilities.

    Args:
        logits: a function `(model, batch) -> (z, y)`; `model(inputs), targets` if not given.

    Example:
        >>> model = nn.Identity()
        >>> z = torch.tensor([[0.0, 0.0], [-100.0, 100.0]])
        >>> LogitError()(model, (z, torch.tensor([0, 0])))
        tensor([0.7071, 1.4142])
    """

    logits: Logits | None = None

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """One score per example, shape (B,)."""
        model, size = unwrapped(model), num_examples(batch)
        with undisturbed(model), torch.no_grad():
            logits, targets = (self.logits or _default_logits)(model, batch)
            targets = _checked(logits, targets)
            errors = widened(logits.detach()).softmax(1)
            if targets.is_floating_point():
                errors -= targets
            else:
                is_known = (targets != IGNORED_TARGET).unsqueeze(1)
                index = targets.unsqueeze(1).clamp(min=0)
                # p_y - 1 would lose the digits of a confident prediction: it is minus the sum of the others.
                errors.scatter_(1, index, 0.0)
                errors.scatter_(1, index, -errors.sum(1, keepdim=True))
                errors *= is_known
            norms = torch.linalg.vector_norm(errors.flatten(1), dim=1)
            if errors.ndim > 2:  # noqa: PLR2004 - (B, C)
                norms /= num_targets(errors[:, 0], targets)
        return checks.per_example("logits", norms, size)


def _checked(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Probabilities, or class indices as torch's cross-entropy takes them, which the other scores call."""
    check_classes("LogitError", logits, targets)
    if targets.is_floating_point():
        return targets
    if targets.dtype == torch.bool or targets.shape != logits.shape[:1] + logits.shape[2:]:
        raise ValueError(
            f"LogitError needs class indices of shape {tuple(logits.shape[:1] + logits.shape[2:])}, "
            f"got {targets.dtype} of shape {tuple(targets.shape)}"
        )
    targets = targets.long()
    is_wrong = ((targets < 0) | (targets >= logits.shape[1])) & (targets != IGNORED_TARGET)
    if bool(is_wrong.any()):
        raise ValueError(
            f"LogitError needs class indices from 0 to {logits.shape[1] - 1}, or {IGNORED_TARGET} for none, "
            f"got {int(targets[is_wrong][0])}"
        )
    return targets


@final
@dataclass(frozen=True)
class LastLayerBound:
    """The norm of the last linear layer's own gradient, weight and bias.

    With its input a and the loss gradient g at its output, sqrt(||g||^2 (||a||^2 + 1)): a lower bound of the
    exact norm, and proportional to an upper bound of it where the layers below have bounded slopes. The
    backward pass ends at that layer, so the cost is one forward pass.

    The last layer is the `nn.Linear` that the forward pass calls last. A model without one, or one that calls
    it more than once, is refused.

    Args:
        losses: a function `(model, batch) -> (B,)`; cross-entropy of `(inputs, targets)` if not given.
    """

    losses: Losses | None = None

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """One score per example, shape (B,)."""
        model, size = unwrapped(model), num_examples(batch)
        watch = _LastLinear()
        with undisturbed(model), torch.inference_mode(mode=False), torch.enable_grad():
            trained = {layer: _trained(layer) for layer in model.modules() if isinstance(layer, nn.Linear)}
            with watch.on(model):
                losses = _without_weight_graph(model, batch, self.losses or cross_entropy)
            losses = checks.per_example("losses", losses, size)
            layer, inputs, outputs = watch.seen()
            if not trained[layer]:
                raise ValueError(f"LastLayerBound needs a last nn.Linear that is trained, but {layer} is frozen")
            place = _place_of(outputs, losses)
            (gradients,) = torch.autograd.grad(losses.sum(), outputs)
        left = _rows(widened(gradients), place)
        squares = torch.zeros(size, device=losses.device)
        if "weight" in trained[layer]:
            squares = squares + OuterSum(left, _rows(widened(inputs), place)).squares()
        if "bias" in trained[layer]:
            squares = squares + row_squares(left.sum(1))
        return squares.sqrt()


def _trained(layer: nn.Linear) -> set[str]:
    return {name for name, parameter in layer.named_parameters(recurse=False) if parameter.requires_grad}


def _place_of(outputs: torch.Tensor, losses: torch.Tensor) -> Place:
    """Where the examples are in the outputs of the last layer, proved by the graph between it and the losses."""
    try:
        leaves = walk(losses, set()).leaves if losses.requires_grad else {}
    except UnprovenError as reason:
        raise ValueError(
            f"LastLayerBound cannot tell the examples apart behind the last nn.Linear: {reason}. Use GradientNorm"
        ) from reason
    places = [place for leaf, place in leaves.items() if leaf.variable is outputs]
    if not places:
        raise ValueError("LastLayerBound needs losses that depend on the nn.Linear called last: use GradientNorm")
    return places[0]


def _rows(tensor: torch.Tensor, place: Place) -> torch.Tensor:
    """(B, positions, features)."""
    if place.dim == tensor.ndim - 1:
        raise ValueError("LastLayerBound: the examples lie along the features of the last nn.Linear")
    return examples_first(tensor, place).flatten(1, -2)


class _LastLinear:
    """Remembers the last call of an nn.Linear and cuts the graph there."""

    def __init__(self) -> None:
        self._last: tuple[nn.Linear, torch.Tensor, torch.Tensor] | None = None
        self._num_calls: dict[nn.Linear, int] = {}

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[None]:
        layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
        handles = [layer.register_forward_hook(self._called) for layer in layers]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def seen(self) -> tuple[nn.Linear, torch.Tensor, torch.Tensor]:
        if self._last is None:
            raise ValueError(
                "LastLayerBound needs a model that calls an nn.Linear, and this one calls none: "
                "use LogitError, Loss or GradientNorm"
            )
        layer = self._last[0]
        if self._num_calls[layer] > 1:
            raise ValueError(
                f"LastLayerBound needs a last nn.Linear that is called once per forward pass, "
                f"but {layer} was called {self._num_calls[layer]} times: use GradientNorm"
            )
        return self._last

    def _called(self, layer: nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
        assert isinstance(layer, nn.Linear)  # noqa: S101 - hooks are only on these
        # Every call cuts the graph, so when the pass is over it begins at the last one.
        leaf = output.detach().requires_grad_()
        self._num_calls[layer] = self._num_calls.get(layer, 0) + 1
        self._last = (layer, args[0].detach(), leaf)
        return leaf.clone()  # which may be changed in place, as by ReLU(inplace=True)


def _without_weight_graph(model: nn.Module, batch: Batch, losses: Losses) -> torch.Tensor:
    """The losses with the weights as constants, so that autograd records nothing below the last layer."""
    wrapped = LossModule(with_whole_parameters(model), losses)
    weights = {name: parameter.detach() for name, parameter in wrapped.named_parameters()}
    result: torch.Tensor = functional_call(wrapped, weights, (batch,))
    return result


def _default_logits(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, targets = inputs_and_targets(batch, "LogitError")
    return model(inputs), targets

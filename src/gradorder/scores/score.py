"""The scores of the library: callables `(model, batch) -> (B,)` with one number per example, in eval mode."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from gradorder import checks, norms
from gradorder.batches import Batch, num_examples
from gradorder.checks import widened
from gradorder.losses import IGNORED_TARGET, Losses, check_classes, cross_entropy, inputs_and_targets, num_targets
from gradorder.norms.model_state import differentiable, eval_mode, unwrapped, with_whole_parameters
from gradorder.norms.operation import UnprovenError
from gradorder.norms.squared_norms import squared_norms
from gradorder.norms.walk import walk

Logits = Callable[[nn.Module, Batch], tuple[torch.Tensor, torch.Tensor]]
"""Logits (B, C, ...) and targets (B, ...) of a batch."""


@final
@dataclass(frozen=True)
class GradientNorm:
    """The exact gradient norm of each example over all trainable parameters; see `gradient_norms`.

    Needs: one loss per example.

    When: you follow the paper, or need the exact norm. `observe_gradient_norms` reads it from your training step.

    Helps, measured: with a learning rate that decreases per iteration, sorting by it ends lowest on synthetic data and
    Boston (claim C2).

    Helps, theory: draws in proportion to it minimise the second moment of the gradient.

    Hurts, measured: scoring every epoch costs about one more epoch, which the kept part has to save first.

    Hurts, theory: noisy labels and outliers have large norms, and come first in every epoch.

    Cost: about one forward and backward pass.

    Reference: Goodfellow (2015), Efficient Per-Example Gradient Computations, for norms without gradients; Alain, Lamb,
    Sankar, Courville and Bengio (2015), Variance Reduction in SGD by Distributed Importance Sampling, for the use.

    Args:
        losses: a function `(model, batch) -> (B,)` with one loss per example; cross-entropy of a batch
            `(inputs, targets)` by default.

    Example:
        >>> from gradorder import squared_error
        >>> model = nn.Linear(2, 1, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> batch = (torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([1.0, 2.0]))
        >>> GradientNorm(squared_error)(model, batch)  # 2 |y| ||x||
        tensor([10.,  4.])
    """

    losses: Losses | None = None

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """One score per example, shape (B,)."""
        return norms.gradient_norms(model, batch, self.losses)


@final
@dataclass(frozen=True)
class Loss:
    """The loss of each example.

    Needs: one loss per example.

    When: always, as the first score to try. Losses of the training step need no extra pass: `sampler.step(losses)`.

    Helps, theory: no score is cheaper than a number that training computes anyway.

    Hurts, theory: remembered losses are up to an epoch old, and older for skipped examples. Noisy labels have the
    largest losses.

    Cost: one forward pass; none for losses remembered from training.

    Reference: Loshchilov and Hutter (2015), Online Batch Selection for Faster Training of Neural Networks.

    Args:
        losses: a function `(model, batch) -> (B,)`; cross-entropy of `(inputs, targets)` by default.
    """

    losses: Losses | None = None

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """One score per example, shape (B,)."""
        model, size = unwrapped(model), num_examples(batch)
        with eval_mode(model), torch.no_grad():
            losses = checks.per_example("losses", (self.losses or cross_entropy)(model, batch), size)
        return widened(losses.detach())


@final
@dataclass(frozen=True)
class LogitError:
    """The norm of the cross-entropy gradient at the logits: ||softmax(z) - onehot(y)||_2.

    It is the paper's score for large networks ("predicted worst first"). If an example has several targets (logits
    (B, C, T), targets (B, T)), it is the norm of the gradient of their mean loss, without targets equal to -100.
    Targets may be class probabilities.

    Needs: logits, and class indices or probabilities.

    When: you have a classifier that is too large for exact norms.

    Helps, theory: bounded by sqrt(2), so that no single example dominates a draw by score.

    Hurts, theory: it saturates: wrong and extremely wrong predictions get nearly equal scores.

    Cost: one forward pass.

    Reference: Xu and Mirzasoleiman (2023), Ordering for Non-Replacement SGD; Paul, Ganguli and Dziugaite (2021), Deep
    Learning on a Data Diet: Finding Important Examples Early in Training.

    Args:
        logits: a function `(model, batch) -> (z, y)`; `model(inputs), targets` by default.

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
        with eval_mode(model), torch.no_grad():
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
    """The norm of the gradient of the last linear layer, over its own parameters.

    With the layer's input a and the loss gradient g at its output, it is sqrt(|g|^2 (|a|^2 + 1)): a lower bound of the
    exact norm, and proportional to an upper bound if the layers below have bounded slopes. The backward pass ends at
    that layer, so the cost is about one forward pass.

    The last layer is the `nn.Linear` that the forward pass calls last. A model without one, or one that calls it more
    than once, is refused; so are losses that mix examples. Uses of its weights outside that call do not count.

    Needs: one loss per example, and a last `nn.Linear`.

    When: the loss is not the cross-entropy, and exact norms are too expensive.

    Helps, theory: ranks as the exact norm does if the last layer dominates the gradient. It serves any loss.

    Hurts, measured: on a small MLP it costs more than the exact norm.

    Hurts, theory: ignores the gradients of all layers below.

    Cost: about one forward pass.

    Reference: Katharopoulos and Fleuret (2018), Not All Samples Are Created Equal: Deep Learning with Importance
    Sampling.

    Args:
        losses: a function `(model, batch) -> (B,)`; cross-entropy of `(inputs, targets)` by default.
    """

    losses: Losses | None = None

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """One score per example, shape (B,)."""
        model, size = with_whole_parameters(unwrapped(model)), num_examples(batch)
        with differentiable(model):
            calls = _LinearCalls(model)
            model.requires_grad_(requires_grad=False)
            with calls.differentiable():
                losses = checks.per_example("losses", (self.losses or cross_entropy)(model, batch), size)
            parameters = calls.parameters_of_last()
            try:
                found = walk(losses, {id(parameter) for parameter in parameters})
            except UnprovenError as reason:
                raise ValueError(
                    f"LastLayerBound cannot separate the examples behind the last nn.Linear: {reason}. Use GradientNorm"
                ) from reason
            if not found.junctions:
                raise ValueError(
                    "LastLayerBound needs losses that depend on the nn.Linear called last. Use GradientNorm"
                )
            return squared_norms(losses, found).sqrt_()


class _LinearCalls:
    """The calls of `nn.Linear` in one forward pass; parameters are differentiable in these calls only."""

    def __init__(self, model: nn.Module) -> None:
        layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
        self._trainable = {layer: [p for p in layer.parameters() if p.requires_grad] for layer in layers}
        self._called: list[nn.Linear] = []

    @contextmanager
    def differentiable(self) -> Iterator[None]:
        handles = []
        for layer in self._trainable:
            # First of all hooks: a hook of torch.nn.utils.weight_norm computes the weight.
            handles.append(layer.register_forward_pre_hook(self._begin, prepend=True))
            handles.append(layer.register_forward_hook(self._end))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def parameters_of_last(self) -> list[nn.Parameter]:
        """The trainable parameters of the layer that was called last."""
        if not self._called:
            raise ValueError(
                "LastLayerBound needs a model that calls an nn.Linear, and this one calls none. "
                "Use LogitError, Loss or GradientNorm"
            )
        layer = self._called[-1]
        num_calls = self._called.count(layer)
        if num_calls > 1:
            raise ValueError(
                f"LastLayerBound needs a last nn.Linear that is called once per forward pass, but {layer} was called "
                f"{num_calls} times. Use GradientNorm"
            )
        if not self._trainable[layer]:
            raise ValueError(f"LastLayerBound needs a last nn.Linear that is trained, but {layer} is frozen")
        for parameter in self._trainable[layer]:
            parameter.requires_grad_()  # for the backward pass
        return self._trainable[layer]

    def _begin(self, layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        assert isinstance(layer, nn.Linear)  # noqa: S101 - no other layer has this hook
        self._called.append(layer)
        for parameter in self._trainable[layer]:
            parameter.requires_grad_()
        # Every call cuts the graph, so that in the end it begins at the last one.
        return tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in args)

    def _end(self, layer: nn.Module, _args: object, _output: object) -> None:
        assert isinstance(layer, nn.Linear)  # noqa: S101 - no other layer has this hook
        for parameter in self._trainable[layer]:
            parameter.requires_grad = False


def _default_logits(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, targets = inputs_and_targets(batch, "LogitError")
    return model(inputs), targets

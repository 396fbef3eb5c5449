"""Per-example losses of a batch `(inputs, targets)`: functions `(model, batch) -> (B,)`.

The mean over a batch is torch's own default loss: `cross_entropy(model, batch).mean()` equals `nn.CrossEntropyLoss()`
and `squared_error(model, batch).mean()` equals `nn.MSELoss()`, if all examples have equally many targets.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from gradorder.batches import Batch
from gradorder.checks import widened

Losses = Callable[[nn.Module, Batch], torch.Tensor]
"""A function of model and batch that returns one loss per example, shape (B,)."""

_MATRIX = 2
_ROUNDED_SUM = 0.01
"""How far the sum of the probabilities may be from 1: bfloat16 rounds each of them by up to 0.4%."""

IGNORED_TARGET = -100
"""The class index that torch's cross-entropy ignores."""


def cross_entropy(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the cross-entropy of each example of a batch `(inputs, targets)`, shape (B,).

    Targets are class indices (B,) or class probabilities (B, C), with at least two classes. If an example has several
    targets, as in segmentation (logits (B, C, H, W), targets (B, H, W)), its loss is the mean over them. Targets equal
    to -100 are ignored.

    Example:
        >>> model = nn.Linear(4, 3)
        >>> cross_entropy(model, (torch.zeros(2, 4), torch.tensor([0, 2]))).shape
        torch.Size([2])
    """
    inputs, targets = inputs_and_targets(batch, "cross_entropy")
    logits = model(inputs)
    check_classes("cross_entropy", logits, targets)
    losses = F.cross_entropy(logits, targets, reduction="none", ignore_index=IGNORED_TARGET)
    if losses.ndim <= 1:
        return losses
    return losses.flatten(1).sum(1) / num_targets(losses, targets)


def squared_error(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the squared error of each example of a batch `(inputs, targets)`, the mean over its outputs, shape (B,).

    Outputs of shape (B, 1) match targets of shape (B,); torch would broadcast them to (B, B).
    """
    inputs, targets = inputs_and_targets(batch, "squared_error")
    outputs: torch.Tensor = model(inputs)
    if outputs.numel() != targets.numel() or len(outputs) != len(targets):
        raise ValueError(
            "squared_error needs as many outputs as targets, "
            f"got outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)}"
        )
    return (outputs - targets.reshape(outputs.shape)).square().reshape(len(targets), -1).mean(1)


def margins(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the logit of each example's label minus the largest other logit, shape (B,).

    A positive margin means that the label is predicted. `sampler.step(losses, margins=...)` records margins.

    Args:
        logits: shape (B, C), with at least two classes.
        targets: the labels as class indices, shape (B,).

    Example:
        >>> margins(torch.tensor([[3.0, 1.0, 0.0], [0.0, 1.0, 5.0]]), torch.tensor([0, 1]))
        tensor([ 2., -4.])
    """
    if logits.ndim != _MATRIX or logits.shape[1] < _MATRIX or tuple(targets.shape) != (len(logits),):
        raise ValueError(
            "logits must have the shape (B, C) with C >= 2 and targets (B,), "
            f"got logits {tuple(logits.shape)} and targets {tuple(targets.shape)}"
        )
    label = targets[:, None]
    others = logits.scatter(1, label, -torch.inf)
    return logits.gather(1, label)[:, 0] - others.amax(1)


def check_classes(name: str, logits: torch.Tensor, targets: torch.Tensor) -> None:
    """Refuse logits of a single class, whose loss is always 0, and float targets that are not probabilities.

    torch's own cross-entropy checks class indices.
    """
    if logits.ndim < _MATRIX:
        return
    if logits.shape[1] == 1:
        raise ValueError(
            f"{name} needs logits of at least two classes, got shape {tuple(logits.shape)}, whose loss is always 0: "
            "for a single output pass losses=squared_error or a function of your own"
        )
    if not targets.is_floating_point():
        return
    if targets.shape != logits.shape:
        raise ValueError(
            f"{name} needs class indices, or probabilities of the logits' shape {tuple(logits.shape)}, "
            f"got {targets.dtype} of shape {tuple(targets.shape)}"
        )
    # Inside torch.func and torch.compile the values cannot be read.
    if torch._C._functorch.maybe_current_level() is None and not torch.compiler.is_compiling():  # noqa: SLF001 - no public way
        _check_probabilities(name, targets.detach())


def _check_probabilities(name: str, targets: torch.Tensor) -> None:
    sums = widened(targets).sum(1)
    if bool((targets < 0).any() | ((sums - 1).abs() > _ROUNDED_SUM).any()):  # one synchronisation, not two
        raise ValueError(
            f"{name} needs targets that are class indices or probabilities, each >= 0 and 1 in sum over the classes, "
            f"got a smallest of {float(targets.min()):.4g} and sums from {float(sums.min()):.4g} to "
            f"{float(sums.max()):.4g}"
        )


def num_targets(losses: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the number of targets of each example that are not ignored, shape (B,); at least 1."""
    if targets.is_floating_point():
        return torch.full((len(losses),), losses[0].numel(), device=losses.device)
    return (targets.long() != IGNORED_TARGET).flatten(1).sum(1).clamp(min=1)


def inputs_and_targets(batch: Batch, name: str) -> tuple[Any, torch.Tensor]:
    """Return the two parts of a supervised batch; the error says what to do with another kind of batch."""
    is_pair = isinstance(batch, Sequence) and len(batch) == 2 and isinstance(batch[1], torch.Tensor)  # noqa: PLR2004 - a pair
    if not is_pair:
        raise ValueError(
            f"{name} takes a batch (inputs, targets), got {type(batch).__name__}: "
            "for any other batch pass your own function of (model, batch) to the score"
        )
    return batch[0], batch[1]

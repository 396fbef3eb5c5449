"""Ready-made `losses`: functions `(model, batch) -> (B,)` with one loss per example.

Each is scaled so that its mean over a batch is torch's own default loss: `cross_entropy(model, batch).mean()`
is `nn.CrossEntropyLoss()` and `squared_error(model, batch).mean()` is `nn.MSELoss()`, for targets of equal
size per example.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from gradorder.batches import Batch

Losses = Callable[[nn.Module, Batch], torch.Tensor]
"""One loss per example of a batch, shape (B,)."""

IGNORED_TARGET = -100
"""The class index that torch's cross-entropy leaves out."""


def cross_entropy(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Cross-entropy of each example of a batch `(inputs, targets)`.

    Targets are class indices (B,) or class probabilities (B, C). With more than one target per example, as in
    segmentation (logits (B, C, H, W), targets (B, H, W)), the loss of an example is the mean over its own
    targets, those equal to -100 left out.

    Example:
        >>> model = nn.Linear(4, 3)
        >>> cross_entropy(model, (torch.zeros(2, 4), torch.tensor([0, 2]))).shape
        torch.Size([2])
    """
    inputs, targets = inputs_and_targets(batch, "cross_entropy")
    logits = model(inputs)
    losses = F.cross_entropy(logits, targets, reduction="none", ignore_index=IGNORED_TARGET)
    if losses.ndim <= 1:
        return losses
    return losses.flatten(1).sum(1) / num_targets(losses, targets)


def num_targets(losses: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """How many targets of each example count, shape (B,); `losses` has one entry per target."""
    if targets.is_floating_point():
        return torch.full((len(losses),), losses[0].numel(), device=losses.device)
    return (targets != IGNORED_TARGET).flatten(1).sum(1).clamp(min=1)


def squared_error(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Squared error of each example of a batch `(inputs, targets)`, the mean over its outputs.

    A model output of shape (B, 1) and targets of shape (B,) mean the same here; torch would broadcast them to
    (B, B).
    """
    inputs, targets = inputs_and_targets(batch, "squared_error")
    outputs: torch.Tensor = model(inputs)
    if outputs.numel() != targets.numel() or len(outputs) != len(targets):
        raise ValueError(
            "squared_error needs as many outputs as targets, "
            f"got outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)}"
        )
    return (outputs - targets.reshape(outputs.shape)).square().reshape(len(targets), -1).mean(1)


def inputs_and_targets(batch: Batch, name: str) -> tuple[Any, torch.Tensor]:
    """The two parts of a supervised batch, or an error that says how to serve another kind of batch."""
    is_pair = isinstance(batch, Sequence) and len(batch) == 2 and isinstance(batch[1], torch.Tensor)  # noqa: PLR2004 - a pair
    if not is_pair:
        raise ValueError(
            f"{name} takes a batch (inputs, targets), got {type(batch).__name__}: "
            "for any other batch pass your own function of (model, batch) to the score"
        )
    return batch[0], batch[1]

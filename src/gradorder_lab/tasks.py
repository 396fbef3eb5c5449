"""A task: what is trained, on what, and how well it went."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import TensorDataset

from gradorder.losses import Losses


@dataclass(frozen=True, eq=False)
class Task:
    """Everything of an experiment that does not depend on the order of the examples.

    All methods of one seed get an equal task: the same data, the same start.
    """

    model: nn.Module
    train: TensorDataset
    losses: Losses
    metric: Callable[[nn.Module], float]
    """How far the model has come, computed by the task and never by the method."""
    labels: torch.Tensor | None = None

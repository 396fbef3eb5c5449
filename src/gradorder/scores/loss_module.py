"""A model and its losses as one module."""

import torch
from torch import nn

from gradorder.batches import Batch
from gradorder.losses import Losses


class LossModule(nn.Module):
    """The losses of a batch as a module, so that `functional_call` reaches the weights of the user's model."""

    def __init__(self, model: nn.Module, losses: Losses) -> None:
        super().__init__()
        self.model = model
        self._losses = losses

    def forward(self, batch: Batch) -> torch.Tensor:
        """One loss per example."""
        return self._losses(self.model, batch)

"""What networks train on: anything that gives labelled examples by their positions."""

from collections.abc import Sequence
from typing import Protocol

import torch

Batch = tuple[torch.Tensor, torch.Tensor]


class Examples(Protocol):
    """Inputs and labels; `gradorder_lab.datasets.ImageDataset` is one."""

    @property
    def labels(self) -> torch.Tensor:
        """int64 (N,)."""

    def __len__(self) -> int: ...

    def batch(self, indices: torch.Tensor | Sequence[int]) -> Batch:
        """Inputs (B, ...) and labels (B,) of these examples."""

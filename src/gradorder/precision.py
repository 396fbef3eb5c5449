"""Sums of squares and orders are computed in float32 or better: in half precision they would lose digits."""

import torch


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in float32, or as it is where that is better."""
    if tensor.dtype in {torch.float32, torch.float64}:  # most often; a training step asks
        return tensor
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))

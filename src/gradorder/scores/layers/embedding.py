"""nn.Embedding and nn.EmbeddingBag: an index names a row of the weight, and that row gets the output gradient."""

import torch
from torch import nn

from gradorder.scores.layers.forms import Form, RowSum


def embedding(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """Indices (B, ...) and output gradients (B, ..., d); the row of padding_idx gets nothing."""
    assert isinstance(layer, nn.Embedding)  # noqa: S101
    rows, right = inputs.reshape(len(inputs), -1), gradient.reshape(len(inputs), -1, gradient.shape[-1])
    if layer.padding_idx is not None:
        right = right.masked_fill((rows == layer.padding_idx).unsqueeze(2), 0)
    return {"weight": RowSum(rows, right, layer.num_embeddings)}


def embedding_bag(layer: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, Form]:
    """Bags of indices (B, N), summed or averaged: every index of a bag gets the bag's gradient, or its share."""
    assert isinstance(layer, nn.EmbeddingBag)  # noqa: S101
    counts = torch.ones_like(inputs, dtype=gradient.dtype)
    if layer.padding_idx is not None:
        counts = counts.masked_fill(inputs == layer.padding_idx, 0)
    if layer.mode == "mean":
        counts = counts / counts.sum(1, keepdim=True).clamp(min=1)
    return {"weight": RowSum(inputs, counts.unsqueeze(2) * gradient.unsqueeze(1), layer.num_embeddings)}

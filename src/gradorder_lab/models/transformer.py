"""A transformer encoder that classifies sequences of tokens."""

import torch
from torch import nn


class TransformerClassifier(nn.Module):
    """Tokens (B, T), T at most `length`, to logits (B, classes).

    Learned positions, torch's own encoder layers without dropout, the mean over the positions, a linear head.
    """

    def __init__(
        self,
        vocabulary: int = 1000,
        classes: int = 10,
        *,
        width: int = 256,
        depth: int = 4,
        heads: int = 4,
        length: int = 128,
        feedforward: int = 1024,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, heads, feedforward, dropout=0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (B, T)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device).repeat(len(tokens), 1)
        hidden = self.encoder(self.embedding(tokens) + self.positions(positions))
        logits: torch.Tensor = self.head(hidden.mean(1))
        return logits

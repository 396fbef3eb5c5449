"""A language model of convolutions that look back only: two layers see 16 characters."""

import torch
from torch import nn
from torch.nn import functional as F

_KERNEL = 4
_EMBEDDED = 32


class CausalConvNet(nn.Module):
    """Tokens (B, T) to the logits of each next token (B, vocabulary, T), as torch's cross-entropy takes them."""

    def __init__(self, vocabulary: int = 65, *, width: int = 96) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, _EMBEDDED)
        self.near = nn.Conv1d(_EMBEDDED, width, _KERNEL)
        self.far = nn.Conv1d(width, width, _KERNEL, dilation=_KERNEL)
        self.relu = nn.ReLU()
        self.head = nn.Conv1d(width, vocabulary, 1)
        for layer in (self.near, self.far):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (B, T)."""
        hidden = self.embedding(tokens).transpose(1, 2)
        for layer in (self.near, self.far):
            past = (_KERNEL - 1) * layer.dilation[0]
            hidden = self.relu(layer(F.pad(hidden, (past, 0))))
        logits: torch.Tensor = self.head(hidden)
        return logits

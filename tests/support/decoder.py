"""A GPT-style language model whose output weights are its token embedding."""

import torch
from torch import nn
from torch.nn import functional as F


class DecoderLanguageModel(nn.Module):
    """Tokens (B, T), T at most `length`, to the logits of each next token (B, T, vocabulary)."""

    def __init__(
        self,
        vocabulary: int = 1000,
        *,
        width: int = 128,
        depth: int = 2,
        heads: int = 4,
        length: int = 128,
        feedforward: int = 512,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(DecoderBlock(width, heads, feedforward) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, std=width**-0.5)  # logits of order one

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (B, T)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device).repeat(len(tokens), 1)
        hidden = self.blocks(self.embedding(tokens) + self.positions(positions))
        logits: torch.Tensor = self.head(self.norm(hidden))
        return logits


class DecoderBlock(nn.Module):
    """Attention to the past, then two linear layers, each normalised before and added after: (B, T, width)."""

    def __init__(self, width: int, heads: int, feedforward: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(nn.Linear(width, feedforward), nn.GELU(), nn.Linear(feedforward, width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states (B, T, width)."""
        hidden = hidden + self.attention(self.attention_norm(hidden))
        output: torch.Tensor = hidden + self.feedforward(self.feedforward_norm(hidden))
        return output


class CausalAttention(nn.Module):
    """Every position attends to itself and those before it: (B, T, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got {width} and {heads}")
        self.heads = heads
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states (B, T, width)."""
        joined = self.queries_keys_values(hidden)
        queries, keys, values = (self._per_head(part) for part in joined.chunk(3, dim=-1))
        attended = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        output: torch.Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return output

    def _per_head(self, hidden: torch.Tensor) -> torch.Tensor:
        """(B, T, width) to (B, heads, T, width / heads)."""
        per_head: torch.Tensor = hidden.unflatten(-1, (self.heads, -1))
        return per_head.transpose(1, 2)

"""An LSTM that classifies sequences."""

import torch
from torch import nn


class RecurrentClassifier(nn.Module):
    """Sequences (B, T, inputs) to logits (B, classes), read off the last step."""

    def __init__(self, inputs: int = 8, hidden: int = 64, classes: int = 10, depth: int = 1) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, depth, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        """Sequences (B, T, inputs)."""
        outputs, _ = self.lstm(sequences)
        logits: torch.Tensor = self.head(outputs[:, -1])
        return logits

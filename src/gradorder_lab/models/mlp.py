"""One hidden layer."""

from torch import nn


def mlp(inputs: int = 784, hidden: int = 128, classes: int = 10) -> nn.Sequential:
    """Images or vectors with `inputs` entries each, (B, ...), to logits (B, classes)."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))

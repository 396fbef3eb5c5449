"""A small U-Net: down, up, and across at every size (Ronneberger et al., 2015)."""

import torch
from torch import nn


class UNet(nn.Module):
    """Images (B, channels, H, W), H and W multiples of 4, to logits for every pixel (B, classes, H, W).

    `width` is the number of channels at full size, a multiple of 4.
    """

    def __init__(self, channels: int = 1, classes: int = 2, width: int = 16) -> None:
        super().__init__()
        self.down_full = _two_convolutions(channels, width)
        self.down_half = _two_convolutions(width, 2 * width)
        self.bottom = _two_convolutions(2 * width, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.to_half = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up_half = _two_convolutions(4 * width, 2 * width)
        self.to_full = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.up_full = _two_convolutions(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images (B, channels, H, W)."""
        full = self.down_full(images)
        half = self.down_half(self.pool(full))
        bottom = self.bottom(self.pool(half))
        half = self.up_half(torch.cat([half, self.to_half(bottom)], dim=1))
        full = self.up_full(torch.cat([full, self.to_full(half)], dim=1))
        logits: torch.Tensor = self.head(full)
        return logits


def _two_convolutions(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1),
        nn.GroupNorm(4, channels_out),
        nn.ReLU(),
        nn.Conv2d(channels_out, channels_out, 3, padding=1),
        nn.GroupNorm(4, channels_out),
        nn.ReLU(),
    )

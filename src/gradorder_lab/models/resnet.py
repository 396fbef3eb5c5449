"""Residual networks for small colour images (He et al., "Deep Residual Learning for Image Recognition", 2016)."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

Shortcut = Callable[[int, int, int], nn.Module]
"""Makes the path around a block from its channels in, channels out and stride."""


def resnet20(classes: int = 10, width: int = 16) -> nn.Sequential:
    """Images (B, 3, H, W) to logits (B, classes): 3 stages of 3 blocks, no parameters on the way around a block.

    The first stage has `width` channels, each later one twice as many at half the size.
    """
    return _resnet(classes, width, [3, 3, 3], Subsample)


def resnet18(classes: int = 100, width: int = 64) -> nn.Sequential:
    """Images (B, 3, H, W) to logits (B, classes): 4 stages of 2 blocks, 1x1 convolutions where the shape changes.

    The stem is that for small images, a 3x3 convolution at full size without pooling.
    """
    return _resnet(classes, width, [2, 2, 2, 2], _projection)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a way around them: (B, C, H, W) to (B, C', H / stride, W / stride)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels_out)
        self.first_relu = nn.ReLU()
        self.second = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels_out)
        self.shortcut = shortcut
        self.last_relu = nn.ReLU()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images (B, C, H, W)."""
        hidden = self.first_relu(self.first_norm(self.first(images)))
        residual = self.second_norm(self.second(hidden))
        output: torch.Tensor = self.last_relu(residual + self.shortcut(images))
        return output


class Subsample(nn.Module):
    """Every `stride`-th pixel, and zeros for the channels that are new."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.before = (channels_out - channels_in) // 2
        self.after = channels_out - channels_in - self.before

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images (B, C, H, W)."""
        return F.pad(images[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.before, self.after))


def _projection(channels_in: int, channels_out: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False), nn.BatchNorm2d(channels_out)
    )


def _resnet(classes: int, width: int, blocks_per_stage: list[int], shortcut: Shortcut) -> nn.Sequential:
    stem = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    blocks: list[nn.Module] = []
    channels = width
    for stage, num_blocks in enumerate(blocks_per_stage):
        for block in range(num_blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            blocks.append(_block(channels, width * 2**stage, stride, shortcut))
            channels = width * 2**stage
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def _block(channels_in: int, channels_out: int, stride: int, shortcut: Shortcut) -> BasicBlock:
    is_same_shape = stride == 1 and channels_in == channels_out
    around = nn.Identity() if is_same_shape else shortcut(channels_in, channels_out, stride)
    return BasicBlock(channels_in, channels_out, stride, around)

"""Three convolutions with BatchNorm, the first with a stride: what one thread trains on CIFAR-10 in a minute or two."""

import torch
from torch import nn

_SHRUNK = 8
"""By which factor images get smaller: a stride and two poolings, of 2 each."""


def strided_conv_net(channels: int = 3, size: int = 32, classes: int = 10, width: int = 16) -> nn.Sequential:
    """Images (B, channels, size, size), `size` a multiple of 8, to logits (B, classes).

    The first convolution has `width` channels, each later one twice as many at half the size. No layer works on whole
    images: with stride 1 and pooling in its place, a training step took half as long again.
    """
    if size % _SHRUNK:
        raise ValueError(f"size must be a multiple of {_SHRUNK}, it is halved three times, got {size}")
    net = nn.Sequential(
        *_normalised(nn.Conv2d(channels, width, 4, stride=2, padding=1, bias=False)),
        *_normalised(nn.Conv2d(width, 2 * width, 3, padding=1, bias=False)),
        nn.MaxPool2d(2),
        *_normalised(nn.Conv2d(2 * width, 4 * width, 3, padding=1, bias=False)),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * width * (size // _SHRUNK) ** 2, classes),
    )
    for parameter in net.parameters():
        if parameter.ndim == 4:  # noqa: PLR2004 - a convolution: faster so on a CPU
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return net


def _normalised(convolution: nn.Conv2d) -> tuple[nn.Module, ...]:
    return convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU()

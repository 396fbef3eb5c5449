"""Three convolutions with BatchNorm and pooling: what one thread trains on CIFAR-10 in minutes."""

import torch
from torch import nn

_POOLINGS = 3


def pooled_conv_net(channels: int = 3, size: int = 32, classes: int = 10, width: int = 24) -> nn.Sequential:
    """Images (B, channels, size, size), `size` a multiple of 8, to logits (B, classes).

    The first convolution has `width` channels, each later one twice as many at half the size.
    """
    if size % 2**_POOLINGS:
        raise ValueError(f"size must be a multiple of {2**_POOLINGS}, it is halved {_POOLINGS} times, got {size}")
    layers: list[nn.Module] = []
    for stage in range(_POOLINGS):
        outputs = width * 2**stage
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
        channels = outputs
    features = channels * (size // 2**_POOLINGS) ** 2
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, classes))
    for parameter in net.parameters():
        if parameter.ndim == 4:  # noqa: PLR2004 - a convolution: a third faster so on a CPU
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return net

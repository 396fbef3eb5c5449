"""Four convolutions with pooling and three linear layers, for benchmarks; experiments train `small_conv_net`."""

from torch import nn

_HALVINGS = 2


def conv_net(channels: int = 1, size: int = 28, classes: int = 10) -> nn.Sequential:
    """Images (B, channels, size, size), `size` a multiple of 4, to logits (B, classes)."""
    if size % 2**_HALVINGS:
        raise ValueError(f"size must be a multiple of {2**_HALVINGS}, it is halved {_HALVINGS} times, got {size}")
    pooled = size // 2**_HALVINGS
    return nn.Sequential(
        *_convolution_and_relu(channels, 32),
        *_convolution_and_relu(32, 32),
        nn.MaxPool2d(2),
        *_convolution_and_relu(32, 64),
        *_convolution_and_relu(64, 64),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * pooled * pooled, 128),
        nn.ReLU(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def _convolution_and_relu(channels_in: int, channels_out: int) -> tuple[nn.Conv2d, nn.ReLU]:
    return nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.ReLU()

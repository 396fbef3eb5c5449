"""CIFAR's augmentation, a batch at a time."""

import numpy as np
import torch
from torch.nn import functional as F

from gradorder import checks


def random_crop_and_flip(images: torch.Tensor, generator: torch.Generator, padding: int = 4) -> torch.Tensor:
    """Each image shifted by up to `padding` pixels each way (black comes in) and, half of the time, mirrored.

    The whole batch is moved by one gather.

    Args:
        images: (B, C, H, W) of any type: bytes, so that 0 is black. Not changed.
        generator: all randomness comes from it; it may live on another device than the images.
        padding: the largest shift.

    Returns:
        A new tensor of the same shape, type and device.

    Example:
        >>> images = torch.arange(9, dtype=torch.uint8).view(1, 1, 3, 3)
        >>> random_crop_and_flip(images, torch.Generator().manual_seed(0), padding=1)
        tensor([[[[4, 3, 0],
                  [7, 6, 0],
                  [0, 0, 0]]]], dtype=torch.uint8)
    """
    checks.integer("padding", padding, minimum=0)
    num_images, num_channels, height, width = images.shape
    tops, lefts, flips = (moves.to(images.device) for moves in random_moves(num_images, generator, padding))
    rows = tops.unsqueeze(1) + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device)
    columns = lefts.unsqueeze(1) + torch.where(flips.unsqueeze(1), columns.flip(0), columns)
    # Positions in a padded image that was flattened: the same for all its channels.
    sources = (rows.unsqueeze(2) * (width + 2 * padding) + columns.unsqueeze(1)).flatten(1)
    padded = F.pad(images, (padding, padding, padding, padding)).flatten(2)
    return padded.gather(2, sources.unsqueeze(1).expand(-1, num_channels, -1)).view_as(images)


def epoch_moves(seed: int, epoch: int, device: torch.device | str = "cpu") -> torch.Generator:
    """The random numbers that the images of this epoch are moved by: the same for every method."""
    state = np.random.SeedSequence((seed, epoch, 1)).generate_state(1, np.uint64)
    return torch.Generator(device).manual_seed(int(state[0]))


def random_moves(
    num_images: int, generator: torch.Generator, padding: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For each image the crop's first row and first column in the padded image, and whether it is mirrored."""
    device = generator.device
    tops, lefts = torch.randint(2 * padding + 1, (2, num_images), generator=generator, device=device)
    flips = torch.randint(2, (num_images,), generator=generator, device=device).bool()
    return tops, lefts, flips

"""CIFAR-10 through a fixed bank of convolutions: training a head on it is like fine-tuning a head on a large network.

The bank is never trained: random patches of the training images, whitened, are its filters (Coates, Ng and Lee, "An
Analysis of Single-Layer Networks in Unsupervised Feature Learning", 2011). Each patch of an image is brought to mean 0
and variance 1, whitened, held against every filter, and what is above a threshold is averaged over each quarter of the
image.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch.nn import functional as F

from gradorder_lab.data.examples import LabelledTensors
from gradorder_lab.data.loading import load

NUM_FILTERS = 256
_SIDE = 6
_STRIDE = 2
_QUARTERS = 2
_NUM_PATCHES = 20_000  # that the whitening is computed from
_FLATTEST = 0.0016  # added to a patch's variance, of pixels in [0, 1]: noise in plain sky stays small
_RIDGE = 0.1  # added to the variance of each direction of patches before it is brought to 1
_THRESHOLD = 1.0
_AT_ONCE = 250
_PATCH_SEED = 0


@cache  # the images take a minute, and every run of a process needs the same
def cifar10_features(directory: Path | None) -> tuple[LabelledTensors, LabelledTensors, int]:
    """Train and test set, and the number of classes: float32 (N, 1024), mean 0 and variance 1 over the training set."""
    train, test = load("cifar10", data_dir=directory, size="cpu")
    bank = Bank.of(train.images, torch.Generator().manual_seed(_PATCH_SEED))
    features = bank.features(train.images)
    mean, deviation = features.mean(0), features.std(0).clamp(min=1e-6)
    of_test = (bank.features(test.images) - mean) / deviation
    of_train = features.sub_(mean).div_(deviation)
    return LabelledTensors(of_train, train.labels), LabelledTensors(of_test, test.labels), train.num_classes


@dataclass(frozen=True, eq=False)
class Bank:
    """Filters (K, 3, 6, 6) for patches of mean 0 and variance 1, and what is added to each filter's response, (K,)."""

    filters: torch.Tensor
    shifts: torch.Tensor

    @classmethod
    def of(cls, images: torch.Tensor, generator: torch.Generator, num_filters: int = NUM_FILTERS) -> "Bank":
        """From random patches of images, uint8 (N, 3, H, W)."""
        patches = _even(_random_patches(images, generator))
        mean = patches.mean(0)
        variances, directions = torch.linalg.eigh(torch.cov(patches.T))
        whitening = directions @ torch.diag((variances.clamp(min=0) + _RIDGE).rsqrt()) @ directions.T
        chosen = F.normalize((patches[:num_filters] - mean) @ whitening)
        filters = chosen @ whitening
        shape = (num_filters, images.shape[1], _SIDE, _SIDE)
        return cls(filters.view(shape).float(), -(filters @ mean).float())

    @torch.no_grad()
    def features(self, images: torch.Tensor) -> torch.Tensor:
        """Of images, uint8 (N, 3, H, W): float32 (N, 4 K)."""
        return torch.cat([self._of_some(some) for some in images.split(_AT_ONCE)])

    def _of_some(self, images: torch.Tensor) -> torch.Tensor:
        pixels = images.float() / 255
        averaged = torch.full((1, *self.filters.shape[1:]), 1 / self.filters[0].numel())
        mean, square = (F.conv2d(some, averaged, stride=_STRIDE) for some in (pixels, pixels.square()))
        deviation = ((square - mean.square()).clamp(min=0) + _FLATTEST).sqrt()
        # A filter's response to a patch that was made even: (w . x - mean sum(w)) / deviation.
        responses = F.conv2d(pixels, self.filters, stride=_STRIDE)
        responses = (responses - mean * _per_channel(self.filters.sum((1, 2, 3)))) / deviation
        active = F.relu(responses + _per_channel(self.shifts) - _THRESHOLD)
        return F.adaptive_avg_pool2d(active, _QUARTERS).flatten(1)


def _per_channel(values: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, 1, 1)


def _random_patches(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Float64 (P, 3 * 6 * 6), pixels in [0, 1]."""
    height, width = images.shape[2:]
    which = torch.randint(len(images), (_NUM_PATCHES,), generator=generator).tolist()
    tops = torch.randint(height - _SIDE + 1, (_NUM_PATCHES,), generator=generator).tolist()
    lefts = torch.randint(width - _SIDE + 1, (_NUM_PATCHES,), generator=generator).tolist()
    places = zip(which, tops, lefts, strict=True)
    patches = [images[one, :, top : top + _SIDE, left : left + _SIDE] for one, top, left in places]
    return torch.stack(patches).flatten(1).double() / 255


def _even(patches: torch.Tensor) -> torch.Tensor:
    """Each patch with mean 0 and variance 1, nearly flat ones less."""
    variance, mean = torch.var_mean(patches, dim=1, correction=0, keepdim=True)
    return (patches - mean) / (variance + _FLATTEST).sqrt()

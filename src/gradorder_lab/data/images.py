"""A data set of images that is one tensor of bytes, so that a batch is one indexing operation."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch.utils.data import Dataset

from gradorder import checks
from gradorder_lab.data.examples import Augment, LabelledBatch

_LARGEST_BYTE = 255
_IMAGE_DIMENSIONS = 4


@dataclass(frozen=True, eq=False, repr=False)
class ImageDataset(Dataset[LabelledBatch]):
    """Labelled images of one size, kept as bytes and normalised when asked for: (pixel / 255 - mean) / std.

    A map-style dataset for any `DataLoader`; a loop of one's own asks for whole batches with `batch`.

    Args:
        images: uint8 (N, C, H, W).
        labels: int64 (N,), on the same device.
        num_classes: labels are 0 to this, less one.
        mean: of pixel / 255, one per channel.
        std: of pixel / 255, one per channel.

    Raises:
        ValueError: shapes, types or labels that do not fit together.

    Example:
        >>> images = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)
        >>> dataset = ImageDataset(images, torch.tensor([0, 1, 0, 1]), 2, mean=(0.5,), std=(0.25,))
        >>> inputs, labels = dataset.batch([3, 0])
        >>> inputs.shape, inputs.unique(), labels
        (torch.Size([2, 1, 2, 2]), tensor([-2.]), tensor([1, 0]))
    """

    images: torch.Tensor
    labels: torch.Tensor
    num_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    _scale: torch.Tensor = field(init=False)
    _shift: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        _check(self)
        mean, std = (torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (self.mean, self.std))
        # pixel * scale + shift: two passes over a batch, where the formula above would make three.
        for name, value in (("_scale", 1 / (_LARGEST_BYTE * std)), ("_shift", -mean / std)):
            object.__setattr__(self, name, value.to(self.images.device, torch.float32))

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.images.shape[1:]))
        return f"ImageDataset({len(self)} images of {size}, {self.num_classes} classes, {self.images.device})"

    def __getitem__(self, index: int) -> LabelledBatch:
        return self.normalised(self.images[index]), self.labels[index]

    def __getitems__(self, indices: Sequence[int]) -> list[LabelledBatch]:
        """The examples of a batch one by one, as a `DataLoader` collates them."""
        inputs, labels = self.batch(indices)
        return list(zip(inputs, labels, strict=True))

    def batch(self, indices: torch.Tensor | Sequence[int], augment: Augment | None = None) -> LabelledBatch:
        """Inputs float32 (B, C, H, W) and labels (B,) of these examples; `augment` sees the bytes, (B, C, H, W)."""
        positions = torch.as_tensor(indices, device=self.images.device)
        # Not images[positions]: index_select copies whole images, indexing goes byte by byte.
        images = self.images.index_select(0, positions)
        if augment is not None:
            images = augment(images)
        return self.normalised(images), self.labels.index_select(0, positions)

    def normalised(self, images: torch.Tensor) -> torch.Tensor:
        """(pixel / 255 - mean) / std as float32, for bytes of shape (..., C, H, W)."""
        return images.to(torch.float32, copy=True).mul_(self._scale).add_(self._shift)

    def to(self, device: torch.device | str) -> Self:
        """The same data set on another device."""
        return replace(self, images=self.images.to(device), labels=self.labels.to(device))

    def subset(self, num_examples: int) -> Self:
        """The first examples of each class, equally many, in the order of this data set.

        Args:
            num_examples: of all classes together; a multiple of the number of classes.

        Raises:
            ValueError: the classes cannot have equally many, or one of them has too few.
        """
        chosen = class_balanced_indices(self.labels.cpu(), self.num_classes, num_examples)
        chosen = chosen.to(self.images.device)
        return replace(self, images=self.images.index_select(0, chosen), labels=self.labels.index_select(0, chosen))


def class_balanced_indices(labels: torch.Tensor, num_classes: int, num_examples: int) -> torch.Tensor:
    """Positions, ascending, of the first examples of each class, equally many.

    Raises:
        ValueError: the classes cannot have equally many, or one of them has too few.

    Example:
        >>> class_balanced_indices(torch.tensor([1, 1, 0, 1, 0, 0]), num_classes=2, num_examples=4)
        tensor([0, 1, 2, 4])
    """
    per_class, rest = divmod(checks.integer("num_examples", num_examples, minimum=1), num_classes)
    if rest:
        raise ValueError(f"num_examples must be a multiple of the {num_classes} classes, got {num_examples}")
    counts = labels.bincount(minlength=num_classes)
    if counts.min() < per_class:
        fewest = int(counts.argmin())
        raise ValueError(
            f"num_examples={num_examples} needs {per_class} examples of each of {num_classes} classes, "
            f"but class {fewest} has {int(counts[fewest])}"
        )
    by_class = labels.argsort(stable=True)
    starts = counts.cumsum(0) - counts
    positions = starts.unsqueeze(1) + torch.arange(per_class)
    return by_class[positions.flatten()].sort().values


def _check(dataset: ImageDataset) -> None:
    images, labels = dataset.images, dataset.labels
    if images.dtype != torch.uint8 or images.ndim != _IMAGE_DIMENSIONS:
        raise ValueError(f"images must be uint8 (N, C, H, W), got {images.dtype} of shape {tuple(images.shape)}")
    if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"labels must be int64 of shape ({len(images)},), got {labels.dtype} of shape {tuple(labels.shape)}"
        )
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < dataset.num_classes:
        found = f"{int(labels.min())} to {int(labels.max())}"
        raise ValueError(f"labels must be 0 to {dataset.num_classes - 1}, got {found}")

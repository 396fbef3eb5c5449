"""Images and their labels as a file gives them: bytes, before any data set is made of them."""

from typing import NamedTuple

import torch


class LabelledImages(NamedTuple):
    """One split: images uint8 (N, C, H, W), labels int64 (N,)."""

    images: torch.Tensor
    labels: torch.Tensor


class TrainTest(NamedTuple):
    """The two splits of a data set."""

    train: LabelledImages
    test: LabelledImages

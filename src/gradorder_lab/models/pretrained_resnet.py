"""A ResNet-20 that was trained on CIFAR-10: its first two stages are frozen, the last one is trained with a new head.

The frozen stages give the same outputs in every epoch: they are computed once. Their batch norms use the statistics of
CIFAR-10.
"""

import hashlib
from pathlib import Path

import torch
from torch import nn

from gradorder_lab.data.examples import PretrainedFeatures, without_some
from gradorder_lab.data.feature_cache import cached_features, sha256
from gradorder_lab.data.files import found
from gradorder_lab.data.loading import load
from gradorder_lab.errors import DatasetFileError
from gradorder_lab.models.resnet import resnet20

NUM_TRAIN = 5000
"""Training images that are used, a random part: a run is to take seconds on one core."""

_FILE = "resnet20-12fca82f.th"
_SHA256 = "12fca82f0bebc4135bf1f32f6e3710e61d5108578464b84fd6d7f5c1b04036c8"
_NUM_FROZEN = 9  # convolution, norm, relu and six blocks
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # what the network was trained with
_AT_ONCE = 250


def cifar100_features(directory: Path | None) -> tuple[PretrainedFeatures, PretrainedFeatures, int]:
    """Return the training set, the test set and the number of classes of CIFAR-100.

    Inputs are the outputs of the frozen stages, float32 (N, 32, 16, 16).
    """
    frozen, pretrained = split_resnet20(read_resnet20(directory))
    train, test = load("cifar100", data_dir=directory, size="cpu")
    kept, _ = without_some(len(train), max(0, len(train) - NUM_TRAIN))

    def features(part: str, images: torch.Tensor, labels: torch.Tensor) -> PretrainedFeatures:
        made_from = (_SHA256, _NUM_FROZEN, hashlib.sha256(images.numpy().tobytes()).hexdigest())
        outputs = cached_features(directory, f"cifar100-{part}", made_from, lambda: frozen_outputs(frozen, images))
        return PretrainedFeatures(outputs, labels, pretrained)

    of_train = features("train", train.images[kept], train.labels[kept])
    return of_train, features("test", test.images, test.labels), train.num_classes


def resnet20_top(classes: int) -> nn.Sequential:
    """Return the trained part, (B, 32, 16, 16) to logits (B, classes), with random weights."""
    return nn.Sequential(*list(resnet20(classes))[_NUM_FROZEN:])


def split_resnet20(whole: nn.Sequential) -> tuple[nn.Sequential, dict[str, torch.Tensor]]:
    """Return the frozen stages, and the weights of the last stage without the head, named as in `resnet20_top`."""
    stages = list(whole)
    trained = nn.Sequential(*stages[_NUM_FROZEN:])
    head = len(trained) - 1
    weights = {name: weight for name, weight in trained.state_dict().items() if not name.startswith(f"{head}.")}
    return nn.Sequential(*stages[:_NUM_FROZEN]).eval(), weights


@torch.no_grad()
def frozen_outputs(frozen: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Return the outputs of the frozen stages for images, uint8 (N, 3, H, W)."""
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (_MEAN, _STD))
    return torch.cat([frozen((some / 255 - mean) / std) for some in images.split(_AT_ONCE)])


def read_resnet20(directory: Path | None) -> nn.Sequential:
    """Return the network for CIFAR-10, in the mode for evaluation.

    Raises:
        DatasetNotFoundError: the file is not there; says where to put it.
        DatasetFileError: it is another file.
    """
    path = found(directory, "pretrained", _FILE, "the ResNet-20 for CIFAR-10 of that name")
    if (known := sha256(path)) != _SHA256:
        raise DatasetFileError(path, f"its SHA-256 must be {_SHA256}, got {known}")
    weights = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    model = resnet20()
    # The file names layers differently, in the same order, and does not count batches.
    names = [name for name in model.state_dict() if not name.endswith("num_batches_tracked")]
    model.load_state_dict(dict(zip(names, weights.values(), strict=True)), strict=False)
    return model.eval()

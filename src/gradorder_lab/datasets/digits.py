"""1,797 handwritten digits of 8x8 pixels, shipped with scikit-learn: no download."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

from gradorder import cross_entropy
from gradorder_lab.tasks import Task

_NUM_TRAIN = 1297
_HIDDEN = 32


def task(seed: int) -> Task:
    """A 64-32-10 network; the seed decides split and start; its metric is the test accuracy in percent."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - heavy, and only this task needs it

    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64)
    generator = torch.Generator().manual_seed(seed)
    split = torch.randperm(len(labels), generator=generator)
    train, test = split[:_NUM_TRAIN], split[_NUM_TRAIN:]
    model = nn.Sequential(nn.Linear(64, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 10))
    for layer in (model[0], model[2]):
        _initialise(layer, generator)

    @torch.no_grad()
    def test_accuracy(model: nn.Module) -> float:
        is_right: torch.Tensor = model(images[test]).argmax(1) == labels[test]
        return 100 * is_right.double().mean().item()

    dataset = TensorDataset(images[train], labels[train])
    return Task(model, dataset, cross_entropy, test_accuracy, labels=labels[train])


def _initialise(layer: nn.Module, generator: torch.Generator) -> None:
    """Torch's own default range, from a generator of ours."""
    assert isinstance(layer, nn.Linear)  # noqa: S101 - of this file's own model
    bound = layer.in_features**-0.5
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    nn.init.uniform_(layer.bias, -bound, bound, generator=generator)

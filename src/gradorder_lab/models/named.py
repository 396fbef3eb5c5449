"""The networks that are trained, by name."""

from collections.abc import Callable
from math import prod

import torch
from torch import nn

from gradorder_lab.data import sst2
from gradorder_lab.models.bag_of_words import BagOfWords
from gradorder_lab.models.minilm import minilm_top
from gradorder_lab.models.mlp import mlp
from gradorder_lab.models.pretrained_resnet import resnet20_top
from gradorder_lab.models.resnet import resnet18, resnet20
from gradorder_lab.models.small_conv_net import small_conv_net
from gradorder_lab.models.strided_conv_net import strided_conv_net
from gradorder_lab.models.transformer import TransformerClassifier

InputShape = tuple[int, ...]
Builder = Callable[[int, InputShape, int | None], nn.Module]
"""(classes, shape of one example, width of the first stage or None for the network's own) -> network."""

_CHARACTERS = 128


def _resnet_builder(build: Callable[..., nn.Module]) -> Builder:
    return lambda classes, _, width: build(classes) if width is None else build(classes, width)


def _transformer(classes: int, shape: InputShape, width: int | None) -> nn.Module:
    width = width or 32
    return TransformerClassifier(
        _CHARACTERS, classes, width=width, depth=1, heads=2, length=shape[0], feedforward=2 * width
    )


MODELS: dict[str, Builder] = {
    "2-layer": lambda classes, shape, width: mlp(prod(shape), width or 128, classes),
    "7-layer": lambda classes, shape, _: small_conv_net(shape[0], shape[1], classes),
    "resnet20": _resnet_builder(resnet20),
    "resnet18": _resnet_builder(resnet18),
    "transformer": _transformer,
    "strided": lambda classes, shape, width: strided_conv_net(shape[0], shape[1], classes, width or 16),
    "minilm": lambda classes, *_: minilm_top(classes),
    "resnet20-top": lambda classes, *_: resnet20_top(classes),
    "resnet18-full": lambda classes, *_: resnet18(classes),
    "bag-of-words": lambda classes, _, width: BagOfWords(sst2.NUM_WORDS, classes, width=width or 32),
}


def started(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A network with the start of this seed; torch's own random state stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()

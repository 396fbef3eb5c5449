"""What each layer adds to a squared norm: one rule per kind of layer, (layer, input, output gradient) -> forms."""

from collections.abc import Callable
from functools import cache

import torch
from torch import nn

from gradorder.scores.layers.activation import prelu
from gradorder.scores.layers.convolution import convolution, transposed_convolution
from gradorder.scores.layers.embedding import embedding, embedding_bag
from gradorder.scores.layers.forms import Form
from gradorder.scores.layers.linear import linear
from gradorder.scores.layers.normalization import batch_norm, group_norm, instance_norm, layer_norm, rms_norm

Rule = Callable[[nn.Module, torch.Tensor, torch.Tensor], dict[str, Form]]
"""(layer, input, output gradient) -> the gradients of its parameters, by name."""

_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Conv3d: convolution,
    nn.ConvTranspose1d: transposed_convolution,
    nn.ConvTranspose2d: transposed_convolution,
    nn.ConvTranspose3d: transposed_convolution,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    nn.BatchNorm3d: batch_norm,
    nn.SyncBatchNorm: batch_norm,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: rms_norm,
    nn.GroupNorm: group_norm,
    nn.InstanceNorm1d: instance_norm,
    nn.InstanceNorm2d: instance_norm,
    nn.InstanceNorm3d: instance_norm,
    nn.PReLU: prelu,
    nn.Embedding: embedding,
    nn.EmbeddingBag: embedding_bag,
}


def rule_for(module: nn.Module) -> Rule | None:
    """The rule of a module, if it is a known layer whose forward pass nobody has changed."""
    return None if "forward" in module.__dict__ else _rule_of(type(module))  # type: ignore[arg-type]


@cache
def _rule_of(kind: type[nn.Module]) -> Rule | None:
    for base in kind.__mro__:
        rule = _RULES.get(base)
        if rule is not None:
            return rule if kind.forward is base.forward else None  # type: ignore[attr-defined]
    return None

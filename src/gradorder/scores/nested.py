"""Tensors inside nested tuples, lists and dicts: what modules take and return."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Nested = Any
"""Tensors and other things in tuples, named tuples, lists and dicts."""


def flattened(tree: Nested) -> tuple[list[torch.Tensor], Callable[[Sequence[torch.Tensor]], Nested]]:
    """The tensors in a structure, and a function that builds the structure again around others."""
    tensors: list[torch.Tensor] = []

    def collect(node: Nested) -> Nested:
        if isinstance(node, torch.Tensor):
            tensors.append(node)
            return _Place(len(tensors) - 1)
        return _mapped(collect, node)

    template = collect(tree)

    def rebuild(replaced: Sequence[torch.Tensor]) -> Nested:
        def fill(node: Nested) -> Nested:
            return replaced[node.index] if isinstance(node, _Place) else _mapped(fill, node)

        return fill(template)

    return tensors, rebuild


def mapped_tensors(function: Callable[[torch.Tensor], torch.Tensor], tree: Nested) -> Nested:
    """The structure with `function` applied to every tensor."""
    tensors, rebuild = flattened(tree)
    return rebuild([function(tensor) for tensor in tensors])


@dataclass(frozen=True)
class _Place:
    index: int


def _mapped(function: Callable[[Nested], Nested], node: Nested) -> Nested:
    if isinstance(node, dict):
        changed = {key: function(value) for key, value in node.items()}
        return changed if type(node) is dict else type(node)(changed)
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return type(node)(*map(function, node))
    if isinstance(node, list | tuple):
        return type(node)(map(function, node))
    return node

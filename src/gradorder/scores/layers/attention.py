"""nn.MultiheadAttention: four linear maps inside one module, their weights packed and never called as layers.

Its forward pass calls the function `linear` on its own parameters, or on blocks of rows of the packed one. While
such a module runs, that function reports the calls, each of which is a linear layer. Inside, positions come first:
inputs are (T, B, d), or (T B, d) for the output map.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from gradorder.scores.layers.forms import Dense, Form, OuterSum


class LinearCall(NamedTuple):
    """One linear map: the parameters, the first of their rows that are used, and the input."""

    weight: nn.Parameter
    bias: nn.Parameter | None
    first_row: int
    inputs: torch.Tensor


Report = Callable[[LinearCall, torch.Tensor], torch.Tensor]
"""A call and its output -> the output to go on with."""


@contextmanager
def attention_calls(module: nn.MultiheadAttention, report: Report) -> Iterator[None]:
    """Report every linear map of this module. Calls with other weights pass through unchanged.

    torch's attention is one function; its parts can be seen only by standing in for `linear`, which it looks up by
    name. A `TorchFunctionMode` would be handed the whole of it.
    """
    parameters = [*module.parameters(recurse=False), *module.out_proj.parameters(recurse=False)]
    own = {id(parameter): parameter for parameter in parameters}
    original = F.linear

    def linear(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        output = original(inputs, weight, bias)
        owner = own.get(id(_base(weight)))
        if owner is None:
            return output
        first_row = (weight.storage_offset() - owner.storage_offset()) // owner[0].numel()
        call = LinearCall(owner, None if bias is None else own.get(id(_base(bias))), first_row, inputs)
        return report(call, output)

    F.linear = linear  # type: ignore[assignment]
    try:
        yield
    finally:
        F.linear = original


def projection(inputs: torch.Tensor, gradient: torch.Tensor, num_examples: int) -> tuple[Form, Form]:
    """Weight and bias gradient of one linear map, positions first: (T, B, d) or (T B, d)."""
    right = inputs.reshape(-1, num_examples, inputs.shape[-1]).transpose(0, 1)
    left = gradient.reshape(-1, num_examples, gradient.shape[-1]).transpose(0, 1)
    return OuterSum(left, right), Dense(left.sum(1))


def padded_rows(form: Form, rows: tuple[int, int], height: int) -> Form:
    """A gradient of some rows as one of the whole parameter, zero elsewhere."""
    part = form.dense()
    whole = part.new_zeros(len(part), height, *part.shape[2:])
    whole[:, rows[0] : rows[1]] = part
    return Dense(whole)


def _base(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that this is a view of."""
    return tensor if tensor._base is None else tensor._base  # noqa: SLF001 - no public way

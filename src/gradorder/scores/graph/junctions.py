"""The gradients of what all examples share, one per example, where an operation joins it with theirs.

At such a junction the gradient at the operation's output is known, each number of it with its example, and so are the
other inputs, which autograd has kept. The gradient of a shared input is a sum over the numbers of the output: taken
for one example at a time, it is that example's own gradient. One rule per kind of operation.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from gradorder.precision import widened
from gradorder.scores.graph.convolution import ConvolutionSum, Geometry, weight_gradients
from gradorder.scores.graph.forms import Blocks, Dense, Form, OuterSum, RowSum
from gradorder.scores.graph.layers import LayerStep
from gradorder.scores.graph.operations import GROUPED_FALLBACK, Step, group_ends, grouped_rows, is_complex
from gradorder.scores.graph.place import Place, UnprovenError, examples_first, summed_to
from gradorder.scores.graph.recurrent import recurrent

JunctionRule = Callable[[Step, Any, int], Form]
"""(operation, gradient at its output, number of the shared input) -> that input's gradients, one per example."""


def junction_rule(step: Step, number: int) -> JunctionRule:
    """The rule for a shared input of an operation."""
    if isinstance(step, LayerStep):
        return _of_layer
    rule = JUNCTIONS.get(step.kind)
    if rule is None:
        raise UnprovenError(f"{step.kind}: its input number {number} is shared by the examples, and no rule splits it")
    if step.kind not in _ALSO_COMPLEX and (is_complex(*step.edges[number]) or is_complex(step.node, 0)):
        raise UnprovenError(f"{step.kind}: its rule is for real numbers")
    return rule


def _of_layer(step: Step, gradient: torch.Tensor, number: int) -> Form:
    assert isinstance(step, LayerStep)  # noqa: S101 - no other step comes here
    return step.form(gradient, number)


def _sums(step: Step, values: torch.Tensor, number: int) -> Form:
    """Numbers at the output, summed over all places to which the shared input was broadcast."""
    place = step.places[0] or step.place
    if values.is_complex() and not is_complex(*step.edges[number]):
        values = values.real
    return Dense(summed_to(examples_first(values, place), step.input_shape(number)))


# ---------------------------------------------------------------- entry by entry


def _times(factor: Callable[[Step, int], Any]) -> JunctionRule:
    """The output is the shared input times something, entry by entry; `factor` gives what."""

    def rule(step: Step, gradient: torch.Tensor, number: int) -> Form:
        by = factor(step, number)
        if isinstance(by, torch.Tensor):
            gradient = gradient * widened(by).conj()
        elif by != 1:
            gradient = gradient * by.conjugate()
        return _sums(step, gradient, number)

    return rule


def _other_factor(step: Step, number: int) -> Any:  # noqa: ANN401 - a tensor or a number
    return step.saved("self" if number == 1 else "other")


def _divided(step: Step, number: int) -> torch.Tensor:
    if getattr(step.node, "_saved_rounding_mode", None) is not None:
        raise UnprovenError("Div: a rounded quotient has no gradient")
    divisor = widened(step.saved("other"))
    return 1 / divisor if number == 0 else -widened(step.saved("self")) / divisor**2


def _chosen(step: Step, number: int) -> torch.Tensor:
    condition: torch.Tensor = step.saved("condition")
    return (condition if number == 0 else ~condition).to(torch.float32)


def _filled(step: Step, number: int) -> torch.Tensor:
    mask: torch.Tensor = step.saved("mask")
    return (mask if number == 1 else ~mask).to(torch.float32)


def _repeated(step: Step, gradient: torch.Tensor, number: int) -> Form:
    """Every dimension of the output is (copies, length of the input), with one copy for each example."""
    shape = list(step.input_shape(number))
    lengths = [1] * (gradient.ndim - len(shape)) + shape
    pairs = [(total // length, length) for total, length in zip(gradient.shape, lengths, strict=True)]
    each = gradient.reshape([part for pair in pairs for part in pair]).movedim(2 * step.place.dim, 0)
    copies = [1 + 2 * dim - (dim > step.place.dim) for dim in range(gradient.ndim) if dim != step.place.dim]
    for dim in reversed(copies):
        each = each.sum(dim)
    return Dense(each.reshape(len(each), *shape))


# ---------------------------------------------------------------- products


def _saved(step: Step, name: str) -> torch.Tensor:
    """A factor of a product, as the other one's gradient is multiplied by it: conjugate."""
    return widened(step.saved(name)).conj()


def _rows(tensor: torch.Tensor, place: Place) -> torch.Tensor:
    """A matrix with examples along one dimension as (B, positions, numbers)."""
    return examples_first(widened(tensor), place) if place.dim == 0 else examples_first(widened(tensor).mT, place.at(0))


def _product(step: Step, gradient: torch.Tensor, number: int, first: str, second: str) -> Form:
    """Left @ right with one of them shared: of the other one's examples, an outer product for each."""
    if gradient.ndim == 3:  # noqa: PLR2004 - batches of matrices
        return _batched_product(step, gradient, number, first, second)
    if number == 1:
        return OuterSum(_rows(_saved(step, first), step.place), _rows(gradient, step.place))
    return OuterSum(_rows(gradient, step.place), _rows(_saved(step, second), step.place))


def _batched_product(step: Step, gradient: torch.Tensor, number: int, first: str, second: str) -> Form:
    """(N, r, k) @ (N, k, c), N counting heads or experts: examples are along r or along c."""
    each = examples_first(gradient, step.place)
    if number == 1:
        return Dense(examples_first(_saved(step, first), step.place).mT @ each)
    return Dense(each @ examples_first(_saved(step, second), step.place).mT)


def _matrix(step: Step, gradient: torch.Tensor, number: int) -> Form:
    return _product(step, gradient, number, "self", "mat2")


def _matrix_added(first: str, second: str) -> JunctionRule:
    """Beta * added + alpha * left @ right."""

    def rule(step: Step, gradient: torch.Tensor, number: int) -> Form:
        factor = step.saved("beta" if number == 0 else "alpha").conjugate()
        scaled = gradient if factor == 1 else gradient * factor
        if number == 0:
            return _sums(step, scaled, 0)
        return _product(step, scaled, number - 1, first, second)

    return rule


def _grouped(step: Step, gradient: torch.Tensor, number: int) -> Form:
    """Rows in groups: every group is a product with a matrix of its own."""
    del number
    ends = group_ends(step).tolist()  # type: ignore[union-attr] # the operation's rule has looked
    examples = step.place.examples().to(gradient.device)
    inputs = widened(grouped_rows(step))
    blocks = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        own = Place(step.place.size, index=examples[start:end])
        blocks.append(OuterSum(_rows(inputs[start:end], own), _rows(gradient[start:end], own)))
    return Blocks(blocks)


def _matrix_vector(step: Step, gradient: torch.Tensor, number: int) -> Form:
    del number
    rows = _rows(_saved(step, "self"), step.place)
    return Dense((rows * examples_first(gradient, step.place).unsqueeze(2)).sum(1))


# ---------------------------------------------------------------- layers of one operation


def _convolution(step: Step, gradient: torch.Tensor, number: int) -> Form:
    if number == 2:  # noqa: PLR2004 - the bias
        return Dense(examples_first(gradient, step.place).flatten(3).sum((1, 3)))
    inputs = widened(step.saved("input"))
    shape = tuple(step.input_shape(1))
    padding = tuple(step.saved("padding"))
    geometry = Geometry(
        shape,
        tuple(step.saved("stride")),
        padding if len(padding) == len(shape) - 2 else padding * (len(shape) - 2),  # "valid" is kept as one zero
        tuple(step.saved("dilation")),
        step.saved("groups"),
    )
    if step.saved("transposed"):  # a convolution's backward pass: inputs and gradients swap
        inputs, gradient = gradient, inputs
        if any(more >= stride for more, stride in zip(step.saved("output_padding"), geometry.stride, strict=True)):
            inputs, geometry = _cut_to_what_is_read(inputs, gradient, geometry)
    if step.place.is_plain:
        return ConvolutionSum(inputs, gradient, geometry)
    each = examples_first(weight_gradients(inputs, gradient, geometry), step.place).sum(1)
    return Dense(each.reshape(len(each), *shape))


def _cut_to_what_is_read(
    inputs: torch.Tensor, outputs: torch.Tensor, geometry: Geometry
) -> tuple[torch.Tensor, Geometry]:
    """With their padding written out, up to the last tap of the last output: what is left would be one output more."""
    inputs = F.pad(inputs, [padding for padding in reversed(geometry.padding) for _ in range(2)])
    sizes = zip(outputs.shape[2:], geometry.stride, geometry.dilation, geometry.kernel, strict=True)
    for dim, (positions, stride, dilation, taps) in enumerate(sizes, start=2):
        inputs = inputs.narrow(dim, 0, (positions - 1) * stride + dilation * (taps - 1) + 1)
    return inputs, geometry._replace(padding=(0,) * len(geometry.padding))


def _layer_norm(step: Step, gradient: torch.Tensor, number: int) -> Form:
    if number == 1:
        mean, scale = step.saved("result1"), step.saved("result2")
        gradient = gradient * torch.addcmul(-mean * scale, widened(step.saved("input")), scale)
    return _sums(step, gradient, number)


def _rms_norm(step: Step, gradient: torch.Tensor, number: int) -> Form:
    return _sums(step, gradient * (widened(step.saved("input")) * step.saved("result1")), number)


def _batch_norm(step: Step, gradient: torch.Tensor, number: int) -> Form:
    place = step.places[0] or step.place
    if number == 1:
        mean, variance = widened(step.saved("running_mean")), widened(step.saved("running_var"))
        normal = F.batch_norm(widened(step.saved("input")), mean, variance, eps=step.saved("eps"))
        return Dense(_products_per_channel(gradient, normal, place))
    return Dense(_per_channel(gradient, place))


def _group_norm(step: Step, gradient: torch.Tensor, number: int) -> Form:
    place = step.places[0] or step.place
    if number == 1:
        inputs = widened(step.saved("input"))
        groups = inputs.reshape(len(inputs), step.saved("group"), -1)
        mean, scale = (step.saved(name).unsqueeze(2) for name in ("result1", "result2"))
        normal = ((groups - mean) * scale).view_as(inputs)
        return Dense(_products_per_channel(gradient, normal, place))
    return Dense(_per_channel(gradient, place))


def _per_channel(values: torch.Tensor, place: Place) -> torch.Tensor:
    """(B, C, ...) summed over positions, and over whatever stands beside the examples."""
    flat = values.flatten(2).sum(2) if values.ndim > 2 else values  # noqa: PLR2004 - (B, C)
    return examples_first(flat, place).sum(1)


def _products_per_channel(first: torch.Tensor, second: torch.Tensor, place: Place) -> torch.Tensor:
    """The same of a product, without writing it down."""
    if first.ndim == 2:  # noqa: PLR2004 - (B, C)
        return _per_channel(first * second, place)
    products: torch.Tensor = torch.linalg.vecdot(first.flatten(2), second.flatten(2))
    return examples_first(products, place).sum(1)


def _embedding(step: Step, gradient: torch.Tensor, number: int) -> Form:
    """Row indices[t] of the table gets the gradient at t; the row of padding_idx gets none."""
    del number
    indices: torch.Tensor = step.saved("indices")
    rows = examples_first(indices, step.place).flatten(1)
    right = examples_first(gradient, step.place).flatten(1, -2)
    padding = step.saved("padding_idx")
    if padding < 2**63:  # -1, "none", is kept as an unsigned number
        right = right.masked_fill((rows == padding).unsqueeze(2), 0)
    return RowSum(rows, right, step.input_shape(0)[0])


def _indexed(step: Step, gradient: torch.Tensor, number: int) -> Form:
    """A table whose rows an index names."""
    del number
    indices = step.saved("indices")
    height, *row = step.input_shape(0)
    if len([index for index in indices if index is not None]) != 1 or indices[0] is None:
        raise UnprovenError("Index: only rows of a shared tensor can be told apart")
    index: torch.Tensor = indices[0]
    rows = examples_first(torch.where(index < 0, index + height, index), step.place).flatten(1)
    right = examples_first(gradient, step.place).reshape(len(rows), rows.shape[1], -1)
    return RowSum(rows, right, height, tuple(row))


def _embedding_bag(step: Step, gradient: torch.Tensor, number: int) -> Form:
    """Every index of a bag gets the bag's gradient, or its share of it."""
    del number
    mode, indices, offsets = step.saved("mode"), step.saved("indices"), step.saved("offsets")
    place = step.places[0] or step.place
    if mode == _MAX:
        sent = gradient.masked_fill((step.saved("result2") == 0).unsqueeze(1), 0)  # nothing by an empty bag
        return _largest(examples_first(step.saved("result3"), place), examples_first(sent, place), step)
    bags = torch.searchsorted(offsets, torch.arange(len(indices), device=indices.device), right=True) - 1
    counts = (indices != step.saved("padding_idx")).to(gradient.dtype)
    if mode == _MEAN:
        sizes = torch.zeros(len(gradient), dtype=counts.dtype, device=counts.device).index_add_(0, bags, counts)
        counts = counts / sizes.clamp(min=1)[bags]
    own = Place(place.size, index=place.examples().to(bags.device)[bags])
    right = examples_first(counts.unsqueeze(1) * gradient[bags], own)
    return RowSum(examples_first(indices, own), right, step.input_shape(0)[0])


_MEAN, _MAX = 1, 2
"""As torch numbers the modes of bags."""


def _largest(rows: torch.Tensor, gradient: torch.Tensor, step: Step) -> Form:
    """Every number of a bag's vector comes from one row of the table; of an empty bag, -1 or any row is named."""
    height, width = step.input_shape(0)
    written = gradient.new_zeros(len(rows), height, width)
    gradient = gradient.flatten(1, -2).masked_fill(rows.flatten(1, -2) < 0, 0)
    return Dense(written.scatter_add_(1, rows.flatten(1, -2).clamp(min=0), gradient))


def _of_one_example(_step: Step, gradient: torch.Tensor, _number: int) -> Form:
    """In a batch of one, a parameter's gradient is the example's."""
    return Dense(gradient.to_dense().unsqueeze(0))


JUNCTIONS: dict[str, JunctionRule] = {
    "AccumulateGrad": _of_one_example,
    "Add": _times(lambda step, number: 1 if number == 0 else step.saved("alpha")),
    "Addmm": _matrix_added("mat1", "mat2"),
    "Baddbmm": _matrix_added("batch1", "batch2"),
    "Bmm": _matrix,
    "Convolution": _convolution,
    "Div": _times(_divided),
    "Embedding": _embedding,
    "EmbeddingBag": _embedding_bag,
    "Expand": _times(lambda _step, _number: 1),
    "FusedRmsNorm": _rms_norm,
    "GroupedMm": _grouped,
    GROUPED_FALLBACK: _grouped,
    "Index": _indexed,
    "MaskedFill": _times(_filled),
    "MkldnnRnnLayer": recurrent,
    "Mm": _matrix,
    "Mul": _times(_other_factor),
    "Mv": _matrix_vector,
    "NativeBatchNorm": _batch_norm,
    "NativeGroupNorm": _group_norm,
    "NativeLayerNorm": _layer_norm,
    "PreluKernel": _times(lambda step, _number: step.saved("self").clamp(max=0)),
    "Repeat": _repeated,
    "Sub": _times(lambda step, number: 1 if number == 0 else -step.saved("alpha")),
    "Where": _times(_chosen),
}

_ALSO_COMPLEX = frozenset([
    "AccumulateGrad", "Add", "Addmm", "Baddbmm", "Bmm", "Div", "Expand", "Index", "MaskedFill", "Mm", "Mul", "Mv",
    "Repeat", "Sub", "Where",
])  # fmt: skip
"""Junctions whose rules are proved for complex numbers, too, as autograd has their gradients (conjugate)."""

"""Operations that move, cut, join, repeat or reduce dimensions."""

import torch

from gradorder.norms.factored import Dense, PerExample
from gradorder.norms.operation import Node, Operation, Place, Rule, from_front, named, output_shape


def _reduced(op: Operation) -> list[Place | None]:
    """Some dimensions are reduced to one number, and removed or kept with length 1."""
    place, ndim = op.common_place, len(op.input_shape(0))
    dims = op.dims("dim", ndim) or list(range(ndim))
    dim = place.dim if op.saved("keepdim") else [d for d in range(ndim) if d not in dims][place.dim]
    if dim in dims:
        raise op.unproven("it goes along the examples")
    return [place.at(dim)]


def _viewed(op: Operation) -> list[Place | None]:
    """The same numbers in the same order, in another shape."""
    return [op.place.viewed(op.shape, op.input_shape(0))]


def permutation(node: Node, ndim: int) -> list[int]:
    """For each dimension of the output of a permuting node, the dimension of the input."""
    dims = list(range(ndim))
    if hasattr(node, "_saved_dims"):
        return [from_front(dim, ndim) for dim in node._saved_dims]  # noqa: SLF001 - no public way
    if hasattr(node, "_saved_dim0"):
        first, second = from_front(node._saved_dim0, ndim), from_front(node._saved_dim1, ndim)  # noqa: SLF001
    else:
        first, second = ndim - 2, ndim - 1
    dims[first], dims[second] = second, first
    return dims


def _permuted(op: Operation) -> list[Place | None]:
    """The dimensions in another order."""
    return [op.place.at(permutation(op.node, len(op.shape))[op.place.dim])]


def _selected(op: Operation) -> list[Place | None]:
    """One index of a dimension, which is removed."""
    place = op.place
    (dim,) = op.dims("dim", len(op.shape) + 1)
    return [place.at(place.dim + (dim <= place.dim))]


def _cut(op: Operation) -> list[Place | None]:
    """One part of a dimension, or several parts as outputs of their own."""
    known = [(number, place) for number, place in enumerate(op.places) if place is not None]
    shape, place = op.input_shape(0), known[0][1]
    (dim,) = op.dims("dim", len(shape))
    if dim != place.dim or shape[dim] == place.length:
        return [op.common_place]
    examples = torch.full((shape[dim],), -1, device=op.device)
    for number, part in known:
        start = _start(op, number, shape[dim])
        spacing = op.saved("step") if op.kind == "Slice" else 1
        examples[start : start + part.length * spacing : spacing] = part.examples().to(op.device)
    return [Place(place.size, dim, index=examples).regular()]


def _start(op: Operation, number: int, length: int) -> int:
    """The first index of an output along the dimension that is cut."""
    if op.kind == "Slice":
        return min(max(0, from_front(op.saved("start"), length)), length)
    if op.kind.endswith("Split"):
        return number * int(op.saved("split_size"))
    return sum(op.saved("split_sizes")[:number])


def _unbound(op: Operation) -> list[Place | None]:
    """Every index of a dimension as an output of its own."""
    place = op.common_place
    (dim,) = op.dims("dim", len(op.input_shape(0)))
    return [place.at(place.dim + (dim <= place.dim))]


def _concatenated(op: Operation) -> list[Place | None]:
    """Inputs one behind the other along a dimension."""
    place = op.place
    (dim,) = op.dims("dim", len(op.shape))
    if dim != place.dim:
        return [place] * len(op.edges)
    if any(child is None for child, _ in op.edges):
        raise op.unproven("it joins examples and constants")
    parts = place.examples().split([output_shape(child, number)[dim] for child, number in op.edges])
    return [Place(place.size, dim, index=part).regular() for part in parts]


def _stacked(op: Operation) -> list[Place | None]:
    """Inputs along a new dimension."""
    place = op.place
    (dim,) = op.dims("dim", len(op.shape))
    if dim == place.dim:
        raise op.unproven("it goes along the examples")
    return [place.at(place.dim - (dim < place.dim))] * len(op.edges)


def _padded(op: Operation) -> list[Place | None]:
    """More entries along dimensions other than that of the examples."""
    if op.shape[op.place.dim] != op.input_shape(0)[op.place.dim]:
        raise op.unproven("it pads the examples")
    return [op.place]


def _repeated(op: Operation) -> list[Place | None]:
    """Copies of each example, or one copy of a shared tensor for every example."""
    place = op.place
    added = len(op.shape) - len(op.input_shape(0))
    repeats = op.saved("repeats")
    dim = place.dim - added
    if repeats[place.dim] == 1 and dim >= 0:
        return [place.at(dim)]
    length = op.input_shape(0)[dim] if dim >= 0 else 1
    if place.index is None and place.outer == 1 and place.inner == length and repeats[place.dim] == place.size:
        return [None]
    raise op.unproven("it repeats the examples")


def _sum_of_copies(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """The gradients of the copies of one example, summed."""
    # Every dimension of the output is (copies, length of the input), with one copy for each example.
    shape = list(op.input_shape(number))
    lengths = [1] * (gradient.ndim - len(shape)) + shape
    pairs = [(total // length, length) for total, length in zip(gradient.shape, lengths, strict=True)]
    each = gradient.reshape([part for pair in pairs for part in pair]).movedim(2 * op.place.dim, 0)
    copies = [1 + 2 * dim - (dim > op.place.dim) for dim in range(gradient.ndim) if dim != op.place.dim]
    for dim in reversed(copies):
        each = each.sum(dim)
    return Dense(each.reshape(len(each), *shape))


def _diagonal(op: Operation) -> list[Place | None]:
    """The diagonal of two dimensions, as a new last one."""
    ndim = len(op.shape) + 1
    cut = [op.dims("dim1", ndim)[0], op.dims("dim2", ndim)[0]]
    others = [d for d in range(ndim) if d not in cut]
    if op.place.dim >= len(others):
        raise op.unproven("it goes along the examples")
    return [op.place.at(others[op.place.dim])]


def _unfolded(op: Operation) -> list[Place | None]:
    """Windows along a dimension, written along a new last one."""
    (dim,) = op.dims("dimension", len(op.shape) - 1)
    if op.place.dim in {dim, len(op.shape) - 1}:
        raise op.unproven("it goes along the examples")
    return [op.place]


def _pooled(op: Operation) -> list[Place | None]:
    """Pooling and resizing of (B, C, ...): each example and channel by itself."""
    place, ndim = op.common_place, len(op.input_shape(0))
    if place.dim != 0 or ndim < 3 + (not op.kind.endswith("1D")):
        raise op.unproven("it goes along the examples")
    return [place]


RULES: dict[str, Rule] = {
    **named(
        "Sum Mean Var Std Amax Amin Max Min Median NanMedian Kthvalue Mode Logsumexp LinalgVectorNorm Norm Prod "
        "Nansum Aminmax",
        Rule(_reduced),
    ),
    **named("View UnsafeView ReshapeAlias ReshapeCopy Unsqueeze Squeeze Unflatten Flatten", Rule(_viewed)),
    **named("Permute Transpose T", Rule(_permuted)),
    "Select": Rule(_selected),
    **named("Slice Split SplitWithSizes UnsafeSplit UnsafeSplitWithSizes Chunk Narrow", Rule(_cut)),
    "Unbind": Rule(_unbound),
    "Cat": Rule(_concatenated),
    "Stack": Rule(_stacked),
    **named("ConstantPadNd ReflectionPad1D ReflectionPad2D ReplicationPad1D ReplicationPad2D", Rule(_padded)),
    "Repeat": Rule(_repeated, _sum_of_copies),
    "Diagonal": Rule(_diagonal),
    "Unfold": Rule(_unfolded),
    **named(
        "MaxPool2DWithIndices MaxPool3DWithIndices AvgPool2D AvgPool3D AdaptiveAvgPool2D AdaptiveAvgPool3D "
        "AdaptiveMaxPool2D UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D UpsampleBilinear2D "
        "UpsampleBicubic2D UpsampleLinear1D UpsampleTrilinear3D PixelShuffle PixelUnshuffle Im2Col",
        Rule(_pooled),
    ),
}

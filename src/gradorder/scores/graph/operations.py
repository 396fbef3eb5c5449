"""How the place of the examples goes from the output of an operation to its inputs, one rule per kind of operation.

Autograd names an operation by its backward node: `MmBackward0` is a matrix product. A rule gets such a node, the
place of the examples in its outputs, and the shapes around it; it gives the place in each input, or None for an input
that all examples share, such as a weight. An operation that is not listed here proves nothing (`UnprovenError`).
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from gradorder.errors import is_out_of_memory
from gradorder.scores.graph.place import Place, Shape, UnprovenError, broadcast

Node = Any
"""A node of torch's autograd graph; what it saves differs from kind to kind."""

LEAF = "AccumulateGrad"
_HANDED_ON = ("_DDPSink", "RegisterPostBackwardFunction")
"""Of torch's wrappers for several processes."""
GROUPED_FALLBACK = "GeneratedBackwardFor_transformers_grouped_mm_fallback_default"
"""The product of rows in groups in Python: transformers' own, for a torch that has none (2.6)."""
_IN_PYTHON = frozenset([*_HANDED_ON, GROUPED_FALLBACK])
"""The functions in Python that are known; their classes are made by modules of torch."""
_LAYOUTS = frozenset(
    [
        "T",
        "Transpose",
        "Permute",
        "View",
        "UnsafeView",
        "ReshapeAlias",
        "Unsqueeze",
        "Squeeze",
        "Alias",
        "Clone",
        "ToCopy",
    ]
)
"""Operations that give all numbers of their input in another layout or precision, or real ones as complex."""


class Step:
    """One operation in the graph, and where the examples are in what it gives.

    Args:
        node: of the operation.
        places: of the examples in each of its outputs; None for an output that no loss depends on.
    """

    __slots__ = ("edges", "kind", "node", "notes", "places")

    def __init__(self, node: Node, places: list[Place | None]) -> None:
        self.node = node
        self.places = places
        self.kind = kind_of(node)
        """The name of the operation, `Mm` for `MmBackward0`."""
        self.edges: Sequence[tuple[Node, int]] = node.next_functions
        """Where each input comes from: the node that made it, None for a constant, and which of its outputs it is."""
        self.notes: dict[str, Any] = {}
        """What a rule has worked out for one input and needs for the next."""

    @property
    def place(self) -> Place:
        """Of the examples in its only used output."""
        if len(self.places) == 1 and self.places[0] is not None:
            return self.places[0]
        known = [place for place in self.places if place is not None]
        if len(known) != 1:
            raise self.unproven("several of its outputs are used")
        return known[0]

    @property
    def shape(self) -> Shape:
        """Of the only used output."""
        return output_shape(self.node, next(nr for nr, place in enumerate(self.places) if place is not None))

    @property
    def device(self) -> torch.device:
        """Of the output."""
        device: torch.device = self.node._input_metadata[0].device  # noqa: SLF001 - no public way
        return device

    def input_shape(self, number: int) -> Shape:
        """Of an input that is no constant."""
        return output_shape(*self.edges[number])

    def saved(self, name: str) -> Any:  # noqa: ANN401 - whatever the node keeps
        """What the node has kept for its backward pass."""
        return getattr(self.node, f"_saved_{name}")

    def dims(self, name: str, ndim: int) -> list[int]:
        """Dimensions that the node has kept, counted from the front."""
        kept = self.saved(name)
        if kept is None:
            return []
        return [_from_front(dim, ndim) for dim in (kept if isinstance(kept, tuple | list) else (kept,))]

    def unproven(self, why: str) -> UnprovenError:
        """The error that says that this operation proves nothing."""
        return UnprovenError(f"{self.kind}: {why}")


def kind_of(node: Node) -> str:
    """`Mm` for `MmBackward0`."""
    return _kind(type(node))  # type: ignore[arg-type] # a type can be hashed


@cache
def _kind(node_type: type) -> str:
    """A function in Python keeps its "Backward", which no kind of ours has: its name is anybody's choice."""
    kind = re.sub(r"Backward\d*$", "", node_type.__name__)
    if not issubclass(node_type, BackwardCFunction):
        return kind
    module = node_type._forward_cls.__module__  # type: ignore[attr-defined] # noqa: SLF001 - no public way
    return kind if kind in _IN_PYTHON and module.startswith("torch.") else node_type.__name__


def output_shape(node: Node, number: int) -> Shape:
    """Of an output of an operation, or of a leaf."""
    shape: Shape = node._input_metadata[number].shape  # noqa: SLF001 - of what reaches it in the backward pass
    return shape


def is_complex(node: Node, number: int) -> bool:
    """Whether an output of an operation holds complex numbers."""
    dtype: torch.dtype = node._input_metadata[number].dtype  # noqa: SLF001 - no public way
    return dtype.is_complex


def is_layout(node: Node) -> bool:
    """Whether this gives all numbers of its input, each once, in another layout or precision."""
    return kind_of(node) in _LAYOUTS and is_complex(node, 0) == is_complex(*node.next_functions[0])


def is_parameter(node: Node) -> bool:
    """Whether this is a leaf, or a leaf's numbers in another layout."""
    while is_layout(node):
        node = node.next_functions[0][0]
    return type(node).__name__ == LEAF


def input_places(step: Step) -> list[Place | None]:
    """The place of the examples in each input; None for those that are shared, and for constants."""
    rule = OPERATIONS.get(step.kind)
    if rule is None:
        raise UnprovenError(f"nothing is known about the operation {type(step.node).__name__}")
    try:
        return rule(step)
    except (AttributeError, IndexError) as error:  # another torch may keep other things
        raise step.unproven(f"it is not as expected ({error})") from error


# ---------------------------------------------------------------- entry by entry


def _entrywise(step: Step) -> list[Place | None]:
    """Every entry depends on the entries at its own place, in inputs that may have been broadcast."""
    place, shape = step.place, step.shape
    return [
        None if child is None else broadcast(place, shape, output_shape(child, number)) for child, number in step.edges
    ]


def _as_numbers(step: Step) -> list[Place | None]:
    """A complex number as two along a new last dimension, or two as one."""
    if step.kind == "ViewAsReal" and step.place.dim == len(step.shape) - 1:
        raise step.unproven("it goes along the examples")
    return [step.place]


def _handed_on(step: Step) -> list[Place | None]:
    """A wrapper's node that hands its last inputs on as they are, to be told when the backward pass comes by."""
    others = len(step.edges) - len(step.places)
    return [*([None] * others), *step.places]


def _losses(step: Step) -> list[Place | None]:
    """Losses that torch can also reduce: without reduction, entry by entry."""
    if step.saved("reduction") != 0:
        raise step.unproven("the loss is reduced over the batch")
    return _entrywise(step)


# ---------------------------------------------------------------- along dimensions


def _along(name: str = "dim") -> Callable[[Step], list[Place | None]]:
    """Entries depend on others along some dimensions, and the shape stays."""

    def rule(step: Step) -> list[Place | None]:
        place = _one_place(step)
        shapes = [output_shape(child, number) for child, number in step.edges if child is not None]
        dims = step.dims(name, len(shapes[0])) or (range(len(shapes[0])) if step.kind == "Roll" else [])
        if place.dim in dims or any(shape[place.dim] != place.length for shape in shapes):
            raise step.unproven("it goes along the examples")
        return [place] * len(step.edges)

    return rule


def _reduction(step: Step) -> list[Place | None]:
    """Some dimensions are reduced to one number, and kept with length 1 or not."""
    place, ndim = _one_place(step), len(step.input_shape(0))
    dims = step.dims("dim", ndim) or list(range(ndim))
    dim = place.dim if step.saved("keepdim") else [d for d in range(ndim) if d not in dims][place.dim]
    if dim in dims:
        raise step.unproven("it goes along the examples")
    return [place.at(dim)]


# ---------------------------------------------------------------- the same numbers elsewhere


def _viewed(step: Step) -> list[Place | None]:
    return [step.place.viewed(step.shape, step.input_shape(0))]


def permutation(node: Node, ndim: int) -> list[int]:
    """Of a node that permutes dimensions: which dimension of the input each one of the output is."""
    dims = list(range(ndim))
    if hasattr(node, "_saved_dims"):
        return [_from_front(dim, ndim) for dim in node._saved_dims]  # noqa: SLF001 - no public way
    if hasattr(node, "_saved_dim0"):
        first, second = _from_front(node._saved_dim0, ndim), _from_front(node._saved_dim1, ndim)  # noqa: SLF001
    else:
        first, second = ndim - 2, ndim - 1
    dims[first], dims[second] = second, first
    return dims


def _permuted(step: Step) -> list[Place | None]:
    return [step.place.at(permutation(step.node, len(step.shape))[step.place.dim])]


def _selected(step: Step) -> list[Place | None]:
    """One index of a dimension, which is gone afterwards."""
    place = step.place
    (dim,) = step.dims("dim", len(step.shape) + 1)
    return [place.at(place.dim + (dim <= place.dim))]


def _cut(step: Step) -> list[Place | None]:
    """A part of a dimension, or several parts as outputs of their own."""
    known = [(number, place) for number, place in enumerate(step.places) if place is not None]
    shape, place = step.input_shape(0), known[0][1]
    (dim,) = step.dims("dim", len(shape))
    if dim != place.dim or shape[dim] == place.length:
        return [_one_place(step)]
    examples = torch.full((shape[dim],), -1, device=step.device)
    for number, part in known:
        start = _start(step, number, shape[dim])
        spacing = step.saved("step") if step.kind == "Slice" else 1
        examples[start : start + part.length * spacing : spacing] = part.examples().to(step.device)
    return [Place(place.size, dim, index=examples).regular()]


def _start(step: Step, number: int, length: int) -> int:
    """Where along its dimension an output begins."""
    if step.kind == "Slice":
        return min(max(0, _from_front(step.saved("start"), length)), length)
    if step.kind.endswith("Split"):
        return number * int(step.saved("split_size"))
    return sum(step.saved("split_sizes")[:number])


def _unbound(step: Step) -> list[Place | None]:
    """Every index of a dimension as an output of its own."""
    place = _one_place(step)
    (dim,) = step.dims("dim", len(step.input_shape(0)))
    return [place.at(place.dim + (dim <= place.dim))]


def _joined(step: Step) -> list[Place | None]:
    """Inputs one behind the other along a dimension."""
    place = step.place
    (dim,) = step.dims("dim", len(step.shape))
    if dim != place.dim:
        return [place] * len(step.edges)
    if any(child is None for child, _ in step.edges):
        raise step.unproven("it joins examples and constants")
    parts = place.examples().split([output_shape(child, number)[dim] for child, number in step.edges])
    return [Place(place.size, dim, index=part).regular() for part in parts]


def _stacked(step: Step) -> list[Place | None]:
    """Inputs along a new dimension."""
    place = step.place
    (dim,) = step.dims("dim", len(step.shape))
    if dim == place.dim:
        raise step.unproven("it goes along the examples")
    return [place.at(place.dim - (dim < place.dim))] * len(step.edges)


def _padded(step: Step) -> list[Place | None]:
    if step.shape[step.place.dim] != step.input_shape(0)[step.place.dim]:
        raise step.unproven("it pads the examples")
    return [step.place]


def _repeated(step: Step) -> list[Place | None]:
    """Copies of a tensor: of an example each of its own, or of something shared one for every example."""
    place = step.place
    added = len(step.shape) - len(step.input_shape(0))
    repeats = step.saved("repeats")
    dim = place.dim - added
    if repeats[place.dim] == 1 and dim >= 0:
        return [place.at(dim)]
    length = step.input_shape(0)[dim] if dim >= 0 else 1
    if place.index is None and place.outer == 1 and place.inner == length and repeats[place.dim] == place.size:
        return [None]
    raise step.unproven("it repeats the examples")


def _diagonal(step: Step) -> list[Place | None]:
    ndim = len(step.shape) + 1
    cut = [step.dims("dim1", ndim)[0], step.dims("dim2", ndim)[0]]
    kept = [d for d in range(ndim) if d not in cut]
    if step.place.dim >= len(kept):
        raise step.unproven("it goes along the examples")
    return [step.place.at(kept[step.place.dim])]


def _unfolded(step: Step) -> list[Place | None]:
    """Windows along a dimension, written along a new last one."""
    (dim,) = step.dims("dimension", len(step.shape) - 1)
    if step.place.dim in {dim, len(step.shape) - 1}:
        raise step.unproven("it goes along the examples")
    return [step.place]


# ---------------------------------------------------------------- by an index


def _index_selected(step: Step) -> list[Place | None]:
    (dim,) = step.dims("dim", len(step.shape))
    if dim != step.place.dim:
        return [step.place]
    return [picked(step.place, step.saved("index"), step.input_shape(0)[dim])]


def _indexed(step: Step) -> list[Place | None]:
    """x[i, j, :]: the indexed dimensions stand together, and the shape of the indices takes their place."""
    place, shape = step.place, step.input_shape(0)
    indices = list(step.saved("indices"))
    at = [dim for dim, index in enumerate(indices) if index is not None]
    tensors = [indices[dim] for dim in at]
    if at != list(range(at[0], at[0] + len(at))) or any(index.dtype == torch.bool for index in tensors):
        raise step.unproven("indices of this kind are not understood")
    index_shape = torch.broadcast_shapes(*(index.shape for index in tensors))
    if place.dim < at[0]:
        return [place]
    if place.dim >= at[0] + len(index_shape):
        return [place.at(place.dim - len(index_shape) + len(at))]
    return [_by_indices(step, tensors, at, index_shape, shape)]


def _by_indices(
    step: Step, tensors: list[torch.Tensor], at: list[int], index_shape: Shape, shape: Shape
) -> Place | None:
    """The examples lie along the indices: an index counts them, or a table is looked up that all share."""
    place, along = step.place, step.place.dim - at[0]
    if at == [0] and is_parameter(step.edges[0][0]):
        return None
    for dim, index in zip(at, tensors, strict=True):
        written = index.expand(index_shape).movedim(along, 0)
        first = written.reshape(len(written), -1)[:, 0]
        if bool((written.reshape(len(written), -1) == first.unsqueeze(1)).all()):
            try:
                return picked(place.at(dim), first, shape[dim])
            except UnprovenError:
                continue
    if at == [0]:
        return None
    raise step.unproven("an index goes across the examples")


def picked(place: Place, index: torch.Tensor, length: int) -> Place:
    """The place in a tensor of which rows were picked: row index[r] belongs to the example of the r-th picked one."""
    theirs = place.examples().to(index.device)
    examples = index.new_full((length,), -1)
    index = torch.where(index < 0, index + length, index)
    examples[index] = theirs
    if not torch.equal(examples[index], theirs):
        raise UnprovenError("an index gives one row to several examples: examples are mixed, or it is shared")
    return Place(place.size, place.dim, index=examples).regular()


def _probed(step: Step) -> list[Place | None]:
    """An operation that only moves numbers about: where to is seen by sending each example's number back through it.

    An entry that gets n times the number c of one example has n, n c and n c^2 from the numbers 1, c and c^2; from
    several examples it gets something else.
    """
    place, shape = step.place, step.shape
    codes = (place.examples() + 1.0).double()
    by_dim = codes.view([-1 if dim == place.dim else 1 for dim in range(len(shape))])
    written = by_dim.expand(tuple(shape)).contiguous().to(step.device)
    try:
        with torch.no_grad():
            sent = [step.node(written**power) for power in range(3)]
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise step.unproven(f"it cannot be tried ({error})") from error
    sums = [each if isinstance(each, tuple) else (each,) for each in sent]
    return [
        None if child is None else _owners(step, *(each[number] for each in sums))
        for number, (child, _) in enumerate(step.edges)
    ]


def _owners(step: Step, counts: torch.Tensor, sums: torch.Tensor, squares: torch.Tensor) -> Place:
    if not torch.equal(counts * squares, sums * sums):
        raise step.unproven("it gives one number to several examples")
    owners = torch.where(counts == 0, -1, (sums / counts).round() - 1).long()
    for dim in range(owners.ndim):
        flat = owners.movedim(dim, 0).reshape(owners.shape[dim], -1)
        along = flat.amax(1)
        if bool(((flat == along.unsqueeze(1)) | (flat < 0)).all()):
            return Place(step.place.size, dim, index=along).regular()
    raise step.unproven("the examples are not along a dimension before it")


def _grouped_product(step: Step) -> list[Place | None]:
    """Rows (R, k) in groups, each with a matrix of its own out of (E, k, c): experts."""
    matrices, _ = step.edges[1]
    is_known = matrices is None or len(step.input_shape(1)) == 3  # noqa: PLR2004 - (E, k, c)
    if step.place.dim != 0 or not is_known or group_ends(step) is None:
        raise step.unproven("only rows in groups are understood")
    return [step.place, None, *([None] * (len(step.edges) - 2))]


def group_ends(step: Step) -> torch.Tensor | None:
    """Where each group of rows ends."""
    ends: torch.Tensor | None = step.node.offs if step.kind == GROUPED_FALLBACK else step.saved("offs")
    return ends


def grouped_rows(step: Step) -> torch.Tensor:
    """The rows of all groups."""
    rows: torch.Tensor = step.node.saved_tensors[0] if step.kind == GROUPED_FALLBACK else step.saved("self")
    return rows


def _index_added(step: Step) -> list[Place | None]:
    """Rows are added to others: those of an example to its own."""
    place = step.place
    (dim,) = step.dims("dim", len(step.shape))
    if dim != place.dim:
        return [place, place]
    index = step.saved("index")
    examples = place.examples().to(index.device)[index]
    return [place, Place(place.size, dim, index=examples).regular()]


# ---------------------------------------------------------------- products


def _matrix_product(step: Step) -> list[Place | None]:
    return [*_of_matrices(step)]


def _matrix_product_added(step: Step) -> list[Place | None]:
    added, _ = step.edges[0]
    first = None if added is None else broadcast(step.place, step.shape, step.input_shape(0))
    return [first, *_of_matrices(step)]


def _of_matrices(step: Step) -> tuple[Place | None, Place | None]:
    """(..., r, k) times (..., k, c): examples along r are the left one's, along c the right one's."""
    place, ndim = step.place, len(step.shape)
    if place.dim == ndim - 2:
        return place, None
    if place.dim == ndim - 1:
        return None, place
    return place, place


def _matrix_vector(step: Step) -> list[Place | None]:
    return [step.place, None]


def _dot_product_attention(step: Step) -> list[Place | None]:
    """Queries, keys and values (B, H, T, d), and perhaps a mask."""
    place = step.place
    lengths = {step.input_shape(number)[place.dim] for number in range(3) if step.edges[number][0] is not None}
    is_masked = any(child is not None for child, _ in step.edges[3:])
    if place.dim > 1 or lengths != {place.length} or is_masked:
        raise step.unproven("examples are not its first dimension, or its mask is trained")
    return [place, place, place, *([None] * (len(step.edges) - 3))]


# ---------------------------------------------------------------- layers of one operation


def _convolution(step: Step) -> list[Place | None]:
    if step.place.dim != 0:
        raise step.unproven("examples are not its first dimension")
    return [step.place, None, None]


def _layer_norm(step: Step) -> list[Place | None]:
    """Over the last dimensions, each position by itself."""
    place, shape = step.places[0], output_shape(step.node, 0)
    if place is None or place.dim >= len(shape) - len(step.saved("normalized_shape")):
        raise step.unproven("it goes along the examples")
    return [place, None, None]


def _batch_norm(step: Step) -> list[Place | None]:
    """By running statistics; or every channel by itself, where the examples are channels (nn.InstanceNorm)."""
    place = step.places[0]
    if place is not None and place.dim == 1:
        return [place, place.at(0), place.at(0)]
    if place is None or step.saved("training"):
        raise ValueError(
            "BatchNorm normalises by the batch here, so there is no per-example gradient: use running statistics "
            "(track_running_stats=True, in eval mode), GroupNorm or LayerNorm"
        )
    return [place, None, None]


def _group_norm(step: Step) -> list[Place | None]:
    place = step.places[0]
    if place is None or place.dim != 0:
        raise step.unproven("examples are not its first dimension")
    return [place, None, None]


def _embedding(step: Step) -> list[Place | None]:
    """The table is shared, the indices are no part of the graph."""
    _check_scale(step)
    if step.place.dim == len(step.shape) - 1:
        raise step.unproven("examples lie along its vectors")
    return [None]


def _check_scale(step: Step) -> None:
    if step.saved("scale_grad_by_freq"):
        raise ValueError(
            "scale_grad_by_freq=True divides by counts over the batch, so there is no per-example gradient"
        )


def _embedding_bag(step: Step) -> list[Place | None]:
    place = step.places[0]
    _check_scale(step)
    if place is None or place.dim != 0 or step.saved("per_sample_weights") is not None:
        raise step.unproven("examples are not its bags, or indices have weights")
    return [None, *([None] * (len(step.edges) - 1))]


def _lstm(step: Step) -> list[Place | None]:
    """(T, B, d) and states (B, h), four weights in between."""
    if step.saved("mode") != _LSTM or step.saved("batch_sizes"):
        raise step.unproven("of recurrent layers in one operation, only the LSTM is understood")
    steps = [place for place in step.places[:1] if place is not None]
    states = [place for place in step.places[1:] if place is not None]
    if any(place.dim != 1 for place in steps) or any(place.dim != 0 for place in states):
        raise step.unproven("it goes along the examples")
    place = (steps + states)[0]
    return [place.at(1), None, None, None, None, place.at(0), place.at(0)]


_LSTM = 2
"""As torch numbers the kinds of recurrent layers."""


def _spatial(step: Step) -> list[Place | None]:
    """Pooling and resizing of (B, C, ...): examples and channels stay by themselves."""
    place, ndim = _one_place(step), len(step.input_shape(0))
    if place.dim != 0 or ndim < 3 + (not step.kind.endswith("1D")):
        raise step.unproven("it goes along the examples")
    return [place]


def _target_picked(step: Step) -> list[Place | None]:
    """The negative log-likelihood: (B, C, ...) -> (B, ...)."""
    if step.saved("reduction") != 0:
        raise step.unproven("the loss is reduced over the batch")
    place = step.places[0]
    if place is None:
        raise step.unproven("only its total weight is used")
    return [place.at(place.dim + (place.dim > 0))]


def _one_place(step: Step) -> Place:
    """Of the examples in all used outputs, which have the dimensions of the input."""
    known = [place for place in step.places if place is not None]
    place = known[0]
    for other in known[1:]:
        place = place.merged(other)
    return place


def _from_front(dim: int, ndim: int) -> int:
    """Negative dimensions are kept as unsigned numbers."""
    dim = dim - 2**64 if dim >= 2**63 else dim
    return dim + ndim if dim < 0 else dim


Rule = Callable[[Step], list[Place | None]]


def _named(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


OPERATIONS: dict[str, Rule] = {
    **_named(
        _entrywise,
        "Abs Acos Acosh Add Addcdiv Addcmul Alias Asin Asinh Atan Atan2 Atanh Ceil Celu Clamp ClampMax ClampMin Clone "
        "Copysign Cos Cosh Div Elu Erf Erfc Exp Exp2 Expm1 Floor Fmod Frac Gelu Hardshrink Hardsigmoid "
        "Hardswish Hardtanh Hypot LeakyRelu Lerp Lgamma Log Log10 Log1P Log2 LogSigmoid Logaddexp Logit MaskedFill "
        "Maximum Minimum Mish Mul NanToNum NativeDropout Neg Pow PreluKernel Reciprocal Relu Relu6 Remainder Round "
        "Rsqrt Rsub Real Imag Conj Complex Selu Sgn Sigmoid Sign Silu Sin Sinc Sinh Softplus Softshrink Sqrt Square "
        "Sub Tan Tanh Threshold "
        "ToCopy Tril Triu Trunc Where Xlogy Expand Erfinv",
    ),
    **_named(_as_numbers, "ViewAsReal ViewAsComplex"),
    **dict.fromkeys(_HANDED_ON, _handed_on),
    **_named(
        _losses,
        "BinaryCrossEntropy BinaryCrossEntropyWithLogits HuberLoss MseLoss SmoothL1Loss SoftMarginLoss L1Loss KlDiv",
    ),
    **_named(
        _along(),
        "Softmax SafeSoftmax LogSoftmax FftC2C FftR2C FftC2R Cumsum Cumprod Logcumsumexp Sort Glu Topk Gather Scatter "
        "ScatterAdd",
    ),
    **_named(_along("dims"), "Roll Flip"),
    **_named(
        _reduction,
        "Sum Mean Var Std Amax Amin Max Min Median NanMedian Kthvalue Mode Logsumexp LinalgVectorNorm Norm Prod "
        "Nansum Aminmax",
    ),
    **_named(_viewed, "View UnsafeView ReshapeAlias ReshapeCopy Unsqueeze Squeeze Unflatten Flatten"),
    **_named(_permuted, "Permute Transpose T"),
    **_named(_selected, "Select"),
    **_named(_cut, "Slice Split SplitWithSizes UnsafeSplit UnsafeSplitWithSizes Chunk Narrow"),
    **_named(_unbound, "Unbind"),
    **_named(_joined, "Cat"),
    **_named(_stacked, "Stack"),
    **_named(_padded, "ConstantPadNd ReflectionPad1D ReflectionPad2D ReplicationPad1D ReplicationPad2D"),
    **_named(_repeated, "Repeat"),
    **_named(_diagonal, "Diagonal"),
    **_named(_unfolded, "Unfold"),
    **_named(_index_selected, "IndexSelect"),
    **_named(_indexed, "Index"),
    **_named(_index_added, "IndexAdd"),
    **_named(_probed, "AsStrided CopySlices MaskedSelect MaskedScatter IndexPut IndexPutImpl IndexFill IndexCopy"),
    **_named(_grouped_product, f"GroupedMm {GROUPED_FALLBACK}"),
    **_named(_matrix_product, "Mm Bmm"),
    **_named(_matrix_product_added, "Addmm Baddbmm"),
    **_named(_matrix_vector, "Mv"),
    **_named(
        _dot_product_attention,
        "ScaledDotProductFlashAttentionForCpu ScaledDotProductFlashAttention ScaledDotProductEfficientAttention "
        "ScaledDotProductCudnnAttention ScaledDotProductFusedAttentionOverrideable",
    ),
    **_named(_convolution, "Convolution"),
    **_named(_layer_norm, "NativeLayerNorm FusedRmsNorm"),
    **_named(_batch_norm, "NativeBatchNorm CudnnBatchNorm MiopenBatchNorm"),
    **_named(_group_norm, "NativeGroupNorm"),
    **_named(_embedding, "Embedding"),
    **_named(_embedding_bag, "EmbeddingBag"),
    **_named(
        _spatial,
        "MaxPool2DWithIndices MaxPool3DWithIndices AvgPool2D AvgPool3D AdaptiveAvgPool2D AdaptiveAvgPool3D "
        "AdaptiveMaxPool2D UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D UpsampleBilinear2D "
        "UpsampleBicubic2D UpsampleLinear1D UpsampleTrilinear3D PixelShuffle PixelUnshuffle Im2Col",
    ),
    **_named(_lstm, "MkldnnRnnLayer"),
    **_named(_target_picked, "NllLoss NllLoss2D"),
}

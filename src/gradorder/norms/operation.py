"""One operation of the autograd graph, and where the examples of the batch are in its tensors.

Most tensors have the examples along their first dimension. Some models put time first, fold examples and positions into
one dimension, or pick rows by an index. A `Place` says which entries of a tensor belong to which example. A `Rule`
says, for one kind of operation, how the place changes from its output to its inputs.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from gradorder.norms.factored import PerExample

Shape = Sequence[int]
Node = Any
"""A node of torch's autograd graph; the values that it saves differ from kind to kind."""
Edge = tuple[Node, int]
"""An output of an operation: its node, and the number of the output."""

LEAF = "AccumulateGrad"
IDENTITIES = ("_DDPSink", "RegisterPostBackwardFunction", "BackwardHookFunction")
"""Functions in Python that torch itself puts into the graph and that return their last inputs unchanged."""


class UnprovenError(RuntimeError):
    """The graph does not prove which numbers belong to which example; the message names the operation."""


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """The examples lie along dimension `dim`.

    An index along it is (o * size + example) * inner + i with o < outer and i < inner, for a batch of `size` examples.
    If `index` is given, entry k belongs to example `index[k]`; -1 means that no loss depends on the entry.
    """

    size: int
    dim: int = 0
    outer: int = 1
    inner: int = 1
    index: torch.Tensor | None = None

    @property
    def is_plain(self) -> bool:
        """True if the dimension counts the examples and nothing else."""
        return self.index is None and self.outer == self.inner == 1

    @property
    def length(self) -> int:
        """The length of the dimension."""
        return len(self.index) if self.index is not None else self.outer * self.size * self.inner

    def at(self, dim: int) -> "Place":
        """The same examples along another dimension."""
        return self if dim == self.dim else replace(self, dim=dim)

    def examples(self) -> torch.Tensor:
        """The example of every index along the dimension."""
        if self.index is not None:
            return self.index
        return torch.arange(self.size).repeat_interleave(self.inner).repeat(self.outer)

    def viewed(self, shape: Shape, new_shape: Shape) -> "Place":
        """The place after a view from `shape` to `new_shape`."""
        if list(shape[: self.dim + 1]) == list(new_shape[: self.dim + 1]):
            return self
        after = math.prod(shape[self.dim + 1 :])
        before = math.prod(shape[: self.dim])
        for dim, length in enumerate(new_shape):
            ahead, behind = math.prod(new_shape[:dim]), math.prod(new_shape[dim + 1 :])
            found = self._split_at(dim, length, (before, after), (ahead, behind))
            if found is not None:
                return found
        raise UnprovenError(f"a view from {tuple(shape)} to {tuple(new_shape)} cuts through the examples")

    def _split_at(self, dim: int, length: int, old: tuple[int, int], new: tuple[int, int]) -> "Place | None":
        if self.index is not None:
            return replace(self, dim=dim) if old == new and length == self.length else None
        outer, outer_rest = divmod(old[0] * self.outer, new[0])
        inner, inner_rest = divmod(self.inner * old[1], new[1])
        if outer_rest or inner_rest or outer * self.size * inner != length:
            return None
        return Place(self.size, dim, outer, inner)

    def merged(self, other: "Place") -> "Place":
        """The place that two users of one tensor agree on."""
        if self is other:
            return self
        if self.index is None and other.index is None:
            if (self.dim, self.outer, self.inner) == (other.dim, other.outer, other.inner):
                return self
        elif self.dim == other.dim and self.length == other.length:
            return self._with_known_of(other)
        raise UnprovenError("one tensor is used as if its examples lay along two dimensions: examples are mixed")

    def _with_known_of(self, other: "Place") -> "Place":
        mine, theirs = self.examples(), other.examples()
        theirs = theirs.to(mine.device)
        if bool(((mine != theirs) & (mine >= 0) & (theirs >= 0)).any()):
            raise UnprovenError("an index takes rows of one example for another: examples are mixed")
        if self.index is None or other.index is None:
            return self if self.index is None else other
        return replace(self, index=torch.maximum(mine, theirs)).regular()

    def regular(self) -> "Place":
        """The same place without an index, if `outer` and `inner` can express it."""
        if self.index is None or len(self.index) == 0 or len(self.index) % self.size:
            return self
        for inner in {1, len(self.index) // self.size}:
            found = Place(self.size, self.dim, len(self.index) // self.size // inner, inner)
            if bool(((found.examples().to(self.index.device) == self.index) | (self.index < 0)).all()):
                return found
        return self


def broadcast(place: Place, shape: Shape, input_shape: Shape) -> Place | None:
    """The place in an input that was broadcast to `shape`; None if all examples share the input."""
    dim = place.dim - (len(shape) - len(input_shape))
    if dim < 0 or input_shape[dim] != shape[place.dim]:
        return None
    return place.at(dim)


def examples_first(tensor: torch.Tensor, place: Place) -> torch.Tensor:
    """The tensor as (B, ...), one row per example; other entries along the dimension of the examples stay beside it.

    A tensor (T, B, d) with examples in the middle becomes (B, T, 1, d); (B T, d) becomes (B, T, d).
    """
    shape, dim = tensor.shape, place.dim
    if place.index is not None:
        return _gathered(tensor, place, place.index)
    if place.is_plain:
        return tensor.unsqueeze(1) if dim == 0 else tensor.movedim(dim, 0).unsqueeze(dim + 1)
    if dim == 0 and place.outer == 1:
        return tensor.reshape(place.size, place.inner, *shape[1:])
    split = tensor.reshape(*shape[:dim], place.outer, place.size, place.inner, *shape[dim + 1 :])
    return split.movedim(dim + 1, 0).flatten(dim + 1, dim + 2)


def _gathered(tensor: torch.Tensor, place: Place, index: torch.Tensor) -> torch.Tensor:
    """The rows of each example side by side, padded with zeros to the longest."""
    index = index.to(tensor.device)
    known = index >= 0
    order = torch.argsort(index, stable=True)[int((~known).sum()) :]
    counts = torch.bincount(index[known], minlength=place.size)
    starts = counts.cumsum(0) - counts
    example = index[order]
    position = torch.arange(len(order), device=index.device) - starts[example]
    rows = tensor.movedim(place.dim, 0)[order]
    gathered = rows.new_zeros(place.size, max(1, int(counts.max())), *rows.shape[1:])
    gathered[example, position] = rows
    return gathered.movedim(1, place.dim + 1)


def summed_to(per_example: torch.Tensor, shape: Shape) -> torch.Tensor:
    """(B, ...) summed over all dimensions to which an input of this shape was broadcast: (B, *shape)."""
    missing = per_example.ndim - 1 - len(shape)
    if missing:
        per_example = per_example.flatten(1, missing).sum(1) if missing > 1 else per_example.sum(1)
    dims = [d for d, length in enumerate(shape, start=1) if length == 1 and per_example.shape[d] != 1]
    return per_example.sum(dims, keepdim=True) if dims else per_example


class Operation:
    """One operation in the graph, with the place of the examples in its outputs.

    Args:
        node: the backward node of the operation.
        places: one per output; None for an output that no loss depends on.
    """

    __slots__ = ("edges", "kind", "node", "notes", "places")

    def __init__(self, node: Node, places: list[Place | None]) -> None:
        self.node = node
        self.places = places
        self.kind = kind_of(node)
        """The name of the operation, `Mm` for `MmBackward0`."""
        self.edges: Sequence[Edge] = node.next_functions
        """The origin of each input: the node that made it (None for a constant) and the number of its output."""
        self.notes: dict[str, Any] = {}
        """Values that a rule has computed for one input and needs for the next."""

    @property
    def place(self) -> Place:
        """The place of the examples in the only output that is used."""
        if len(self.places) == 1 and self.places[0] is not None:
            return self.places[0]
        known = [place for place in self.places if place is not None]
        if len(known) != 1:
            raise self.unproven("several of its outputs are used")
        return known[0]

    @property
    def common_place(self) -> Place:
        """The place of the examples in all used outputs, which have the dimensions of the input."""
        known = [place for place in self.places if place is not None]
        place = known[0]
        for other in known[1:]:
            place = place.merged(other)
        return place

    @property
    def shape(self) -> Shape:
        """The shape of the only output that is used."""
        return output_shape(self.node, next(nr for nr, place in enumerate(self.places) if place is not None))

    @property
    def device(self) -> torch.device:
        """The device of the output."""
        device: torch.device = self.node._input_metadata[0].device  # noqa: SLF001 - no public way
        return device

    def input_shape(self, number: int) -> Shape:
        """The shape of an input that is not a constant."""
        return output_shape(*self.edges[number])

    def saved(self, name: str) -> Any:  # noqa: ANN401 - whatever the node saves
        """A value that the node saved for its backward pass."""
        return getattr(self.node, f"_saved_{name}")

    def dims(self, name: str, ndim: int) -> list[int]:
        """Dimensions that the node saved, counted from the front."""
        saved = self.saved(name)
        if saved is None:
            return []
        return [from_front(dim, ndim) for dim in (saved if isinstance(saved, tuple | list) else (saved,))]

    def unproven(self, why: str) -> UnprovenError:
        """The error for this operation."""
        return UnprovenError(f"{self.kind}: {why}")


PlaceRule = Callable[[Operation], list[Place | None]]
"""operation -> the place of the examples in each input; None for inputs that all examples share, and for constants."""

GradientRule = Callable[[Operation, Any, int], PerExample]
"""(operation, gradient at its output, number of a shared input) -> the gradients of that input, one per example."""


@dataclass(frozen=True)
class Rule:
    """All that is known about one kind of operation.

    Args:
        places: the place of the examples in each input.
        gradients: the per-example gradients of an input that all examples share, such as a weight; None if the
            operation has no rule for shared inputs.
        needs_all_outputs: pass the gradients at all outputs to `gradients`, rather than those at the first used one.
    """

    places: PlaceRule
    gradients: GradientRule | None = None
    needs_all_outputs: bool = False


def named(names: str, rule: Rule) -> dict[str, Rule]:
    """One rule for several kinds of operations, their names separated by blanks."""
    return dict.fromkeys(names.split(), rule)


def kind_of(node: Node) -> str:
    """The name of a node's operation: `Mm` for `MmBackward0`."""
    return _kind(type(node))  # type: ignore[arg-type] # a type can be hashed


@cache
def _kind(node_type: type) -> str:
    """A function in Python keeps its "Backward", which is in no name of ours: users choose such names freely."""
    kind = re.sub(r"Backward\d*$", "", node_type.__name__)
    if not issubclass(node_type, BackwardCFunction):
        return kind
    module = node_type._forward_cls.__module__  # type: ignore[attr-defined] # noqa: SLF001 - no public way
    return kind if kind in IDENTITIES and module.startswith("torch.") else node_type.__name__


def output_shape(node: Node, number: int) -> Shape:
    """The shape of an output of an operation, or of a leaf."""
    shape: Shape = node._input_metadata[number].shape  # noqa: SLF001 - of the gradient that reaches it
    return shape


def is_complex(node: Node, number: int) -> bool:
    """True if an output of an operation holds complex numbers."""
    dtype: torch.dtype = node._input_metadata[number].dtype  # noqa: SLF001 - no public way
    return dtype.is_complex


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
"""Operations that return every number of their input once, in another layout or precision."""


def is_layout(node: Node) -> bool:
    """True if the node returns every number of its input once, in another layout or precision."""
    return kind_of(node) in _LAYOUTS


def is_parameter(node: Node) -> bool:
    """True if this is a leaf, or a leaf's numbers in another layout."""
    while is_layout(node):
        node = node.next_functions[0][0]
    return type(node).__name__ == LEAF


def from_front(dim: int, ndim: int) -> int:
    """A dimension counted from the front; nodes save negative ones as unsigned numbers."""
    dim = dim - 2**64 if dim >= 2**63 else dim
    return dim + ndim if dim < 0 else dim

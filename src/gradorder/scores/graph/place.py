"""Where in a tensor the examples of a batch are.

Most tensors have them along their first dimension. Some models put time first, or fold examples into a dimension
together with positions or heads; some pick rows by an index. A `Place` says which entries belong to which example,
and how that changes from the output of an operation to its inputs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

Shape = Sequence[int]


class UnprovenError(RuntimeError):
    """It cannot be proved which numbers belong to which example; the message says at which operation."""


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """The examples lie along dimension `dim`.

    An index along it is (o * size + example) * inner + i with o < outer and i < inner, where `size` examples are in
    the batch; or, where `index` is given, its example is `index[...]`, and -1 where no loss depends on that entry.
    """

    size: int
    dim: int = 0
    outer: int = 1
    inner: int = 1
    index: torch.Tensor | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the dimension counts the examples and nothing else."""
        return self.index is None and self.outer == self.inner == 1

    @property
    def length(self) -> int:
        """Of the dimension."""
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
        """The same numbers in the same order under another shape."""
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
        """What two users of one tensor say of it, if they agree."""
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
        """Without an index, where it says nothing that `outer` and `inner` could not."""
        if self.index is None or len(self.index) == 0 or len(self.index) % self.size:
            return self
        for inner in {1, len(self.index) // self.size}:
            found = Place(self.size, self.dim, len(self.index) // self.size // inner, inner)
            if bool(((found.examples().to(self.index.device) == self.index) | (self.index < 0)).all()):
                return found
        return self


def broadcast(place: Place, shape: Shape, input_shape: Shape) -> Place | None:
    """The place in an input that was broadcast to `shape`; None where all examples share it."""
    dim = place.dim - (len(shape) - len(input_shape))
    if dim < 0 or input_shape[dim] != shape[place.dim]:
        return None
    return place.at(dim)


def examples_first(tensor: torch.Tensor, place: Place) -> torch.Tensor:
    """(B, ...): each example's part, with what else lies along the dimension of the examples in its stead.

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
    """The rows of each example side by side, filled up with zeros to the longest."""
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
    """(B, ...) summed over all that was broadcast from an input of this shape: (B, *shape)."""
    missing = per_example.ndim - 1 - len(shape)
    if missing:
        per_example = per_example.flatten(1, missing).sum(1) if missing > 1 else per_example.sum(1)
    dims = [d for d, length in enumerate(shape, start=1) if length == 1 and per_example.shape[d] != 1]
    return per_example.sum(dims, keepdim=True) if dims else per_example

"""The gradients of one parameter, one per example, in factored form.

A linear layer's weight gradient is a sum of outer products; its squared norm follows from the factors, without the (B,
p, d) gradients themselves. A rule returns such a factored form. Most parameters are used once, and then only the
squared norms are needed. A parameter that is used several times (tied embeddings, a layer called twice) needs the norm
of a sum: forms are then multiplied with each other, or written out where that is cheaper.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, final

import torch

_ENTRIES_AT_ONCE = 2**22
"""Entries of intermediate results: 16 MiB in float32, which fits the cache of most processors."""


class PerExample(Protocol):
    """The per-example gradients of one parameter."""

    def squares(self) -> torch.Tensor:
        """The squared norm of each, shape (B,)."""

    def dense(self) -> torch.Tensor:
        """All of them written out, shape (B, ...) with the numbers of the parameter in its own order."""


@final
@dataclass(frozen=True, eq=False)
class Dense:
    """Gradients written out: for vectors such as biases, and for whatever has no better form."""

    rows: torch.Tensor

    def squares(self) -> torch.Tensor:
        """Sum of squares of each row."""
        return row_squares(self.rows)

    def dense(self) -> torch.Tensor:
        """The rows."""
        return self.rows


@final
@dataclass(frozen=True, eq=False)
class OuterSum:
    """sum_t left_t right_t' over the positions t of an example: a weight of shape (p, d).

    left (B, T, p), right (B, T, d). Two ways to the squared norm, both exact:

        sum_{t,s} <left_t, left_s> <right_t, right_s>      costs T^2 (p + d), holds 2 T^2 numbers
        the entries of sum_t left_t right_t'               costs T p d, holds p d numbers
    """

    left: torch.Tensor
    right: torch.Tensor

    def squares(self, last: "LastProducts | None" = None) -> torch.Tensor:
        """By the cheaper way, a few examples at a time.

        Args:
            last: keeps the products <left_t, left_s> for the next weight with the same input.
        """
        positions, height, width = self.left.shape[1], self.left.shape[2], self.right.shape[2]
        if positions == 1:
            return row_squares(self.left) * row_squares(self.right)
        if not _products_are_cheaper(positions, height, width):
            return _in_chunks(_squares_by_entries, height * width, self.left, self.right)
        if last is not None and len(self.left) * 2 * positions**2 <= _ENTRIES_AT_ONCE:
            return row_dots(last.of(self.left), self.right @ self.right.mT).clamp_(min=0)
        return _in_chunks(_squares_by_products, 2 * positions**2, self.left, self.right)

    def dense(self) -> torch.Tensor:
        """(B, p, d)."""
        return self.left.mT @ self.right

    def transposed(self) -> "OuterSum":
        """The gradients of the transposed weight."""
        return OuterSum(self.right, self.left)


class LastProducts:
    """The products <left_t, left_s> of the last input: queries, keys and values are computed from the same one."""

    def __init__(self) -> None:
        self._input: torch.Tensor | None = None
        self._version = 0
        self._products = torch.empty(0)

    def of(self, left: torch.Tensor) -> torch.Tensor:
        """Left (B, T, p) -> (B, T, T)."""
        if self._input is None or not self._is_same(self._input, left):
            self._input, self._products = left, left @ left.mT
            self._version = left._version  # noqa: SLF001 - no public way
        return self._products

    def _is_same(self, mine: torch.Tensor, left: torch.Tensor) -> bool:
        """True if both are one piece of memory that nobody has written to; it is not freed while `mine` exists."""
        return (
            mine.data_ptr() != 0  # a tensor made of others, such as a DTensor, has no memory of its own
            and (mine.data_ptr(), mine.shape, mine.stride()) == (left.data_ptr(), left.shape, left.stride())
            and (mine.dtype, mine.device) == (left.dtype, left.device)
            and self._version == mine._version == left._version  # noqa: SLF001 - no public way
        )


def _products_are_cheaper(positions: int, height: int, width: int) -> bool:
    """Few positions, or a weight so large that writing it out would take a multiple of what there is to hold."""
    products, entries = positions * (height + width), height * width
    is_large = entries > _ENTRIES_AT_ONCE
    return products <= entries * (2 if is_large else 1)


def _squares_by_products(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return row_dots(left @ left.mT, right @ right.mT).clamp_(min=0)


def _squares_by_entries(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return row_squares(left.mT @ right)


def _in_chunks(function: Callable[..., torch.Tensor], entries_of_one: int, *tensors: torch.Tensor) -> torch.Tensor:
    """The function, applied to a few examples at a time, so that intermediate results stay small."""
    size = max(1, _ENTRIES_AT_ONCE // max(1, entries_of_one))
    if size >= len(tensors[0]):
        return function(*tensors)
    return torch.cat([function(*parts) for parts in zip(*(t.split(size) for t in tensors), strict=True)])


@final
@dataclass(frozen=True, eq=False)
class RowSum:
    """Row `rows[t]` of a (p, d) weight gets right_t: an embedding. rows (B, T), right (B, T, d)."""

    rows: torch.Tensor
    right: torch.Tensor
    height: int
    row_shape: tuple[int, ...] | None = None
    """Of the weight after its first dimension, where that is not (d,)."""

    def squares(self) -> torch.Tensor:
        """Rows that an example names more than once are added up before they are squared."""
        num_examples = len(self.rows)
        example = torch.arange(num_examples, device=self.rows.device).unsqueeze(1)
        named, which = torch.unique(example * self.height + self.rows, return_inverse=True)
        sums = self.right.new_zeros(len(named), self.right.shape[2])
        sums.index_add_(0, which.flatten(), self.right.flatten(0, 1))
        squares = row_squares(sums)
        return squares.new_zeros(num_examples).index_add_(0, named // self.height, squares)

    def dense(self) -> torch.Tensor:
        """(B, p, d)."""
        written = self.right.new_zeros(len(self.rows), self.height, self.right.shape[2])
        written.scatter_add_(1, self.rows.unsqueeze(2).expand_as(self.right), self.right)
        return written if self.row_shape is None else written.unflatten(2, self.row_shape)


@final
@dataclass(frozen=True, eq=False)
class Blocks:
    """A parameter in blocks along its first dimension, each with gradients of its own."""

    forms: Sequence[PerExample]

    def squares(self) -> torch.Tensor:
        """Blocks have no entry in common."""
        return torch.stack([form.squares() for form in self.forms]).sum(0)

    def dense(self) -> torch.Tensor:
        """(B, blocks, ...)."""
        return torch.stack([form.dense() for form in self.forms], 1)


def sum_squares(forms: Sequence[PerExample]) -> torch.Tensor:
    """The squared norm of the sum of several gradients of one parameter, shape (B,)."""
    if len(forms) == 1:
        return forms[0].squares()
    forms = _with_outer_sums_joined(forms)
    if len(forms) == 1:
        return forms[0].squares()
    products = [form for form in forms if isinstance(form, OuterSum | RowSum)]
    if len(products) == len(forms) and _products_pay(products):
        total = torch.stack([form.squares() for form in products]).sum(0)
        for i, first in enumerate(products):
            for second in products[:i]:
                total += 2 * _inner(first, second)
        return total.clamp_(min=0)
    return row_squares(written_sum(forms))


def _with_outer_sums_joined(forms: Sequence[PerExample]) -> list[PerExample]:
    """Several sums over positions are one over all their positions: a weight that acts at every time step."""
    outer = [form for form in forms if isinstance(form, OuterSum)]
    if len(outer) < 2:  # noqa: PLR2004 - nothing to join
        return list(forms)
    joined = OuterSum(torch.cat([form.left for form in outer], 1), torch.cat([form.right for form in outer], 1))
    return [joined, *(form for form in forms if not isinstance(form, OuterSum))]


def written_sum(forms: Sequence[PerExample]) -> torch.Tensor:
    """The sum of several gradients of one parameter, written out: (B, entries)."""
    first, *others = (form.dense() for form in forms)
    total = first.reshape(len(first), -1)
    for each in others:
        total = total + each.reshape(len(each), -1)
    return total


def row_squares(rows: torch.Tensor) -> torch.Tensor:
    """The sum of squares of each row, shape (B,)."""
    return row_dots(rows, rows)


def row_dots(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """The inner product of each pair of rows, shape (B,)."""
    # Not vector_norm: over millions of float32 entries it was off by 4e-4, a dot product by 1e-7.
    products: torch.Tensor = torch.linalg.vecdot(first.reshape(len(first), -1), second.reshape(len(second), -1))
    return products


def _products_pay(forms: "Sequence[OuterSum | RowSum]") -> bool:
    """Whether products over positions are cheaper than the weight written out."""
    positions = sum(form.right.shape[1] for form in forms)
    first = forms[0]
    width, height = first.right.shape[2], first.height if isinstance(first, RowSum) else first.left.shape[2]
    return _products_are_cheaper(math.ceil(positions / 2), height, width)


def _inner(first: "OuterSum | RowSum", second: "OuterSum | RowSum") -> torch.Tensor:
    """The inner product of two gradients of one weight, example by example, shape (B,)."""
    if isinstance(first, OuterSum) and isinstance(second, OuterSum):
        return row_dots(first.left @ second.left.mT, first.right @ second.right.mT)
    if isinstance(first, RowSum) and isinstance(second, RowSum):
        same = first.rows.unsqueeze(2) == second.rows.unsqueeze(1)
        return row_dots(same.to(first.right.dtype), first.right @ second.right.mT)
    if isinstance(first, OuterSum) and isinstance(second, RowSum):
        index = second.rows.unsqueeze(1).expand(-1, first.left.shape[1], -1)
        return row_dots(first.left.gather(2, index), first.right @ second.right.mT)
    return _inner(second, first)

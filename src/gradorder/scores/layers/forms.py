"""The gradients of one parameter, one per example, in whatever form is cheap: never larger than they must be.

A layer rule returns such a form. Most parameters are used once, and then only the squared norms are asked for.
A parameter that is used several times (tied embeddings, a layer called twice) needs the norm of a sum, so forms
can also be written out, or multiplied with each other where that is cheaper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, final

import torch


class Form(Protocol):
    """The per-example gradients of one parameter."""

    def squares(self) -> torch.Tensor:
        """The squared norm of each, shape (B,)."""

    def dense(self) -> torch.Tensor:
        """All of them written out, shape (B, ...) with the numbers of the parameter in its own order."""

    def total(self) -> torch.Tensor:
        """Their sum over the examples: what a plain backward pass adds to `.grad`, in any shape."""


@final
@dataclass(frozen=True, eq=False)
class Dense:
    """Gradients written out: for vectors such as biases, and for whatever has no better form."""

    rows: torch.Tensor

    def squares(self) -> torch.Tensor:
        """Sum of squares of each row."""
        return self.known_squares.clone()

    @cached_property
    def known_squares(self) -> torch.Tensor:
        """The same, computed once, not to be changed."""
        return row_squares(self.rows)

    def dense(self) -> torch.Tensor:
        """The rows."""
        return self.rows

    def total(self) -> torch.Tensor:
        """The sum of the rows."""
        return self.rows.sum(0)


@final
@dataclass(frozen=True, eq=False)
class OuterSum:
    """sum_t left_t right_t' over the positions t of an example: a weight of shape (p, d).

    left (B, T, p), right (B, T, d). Two ways to the squared norm, both exact:

        sum_{t,s} <left_t, left_s> <right_t, right_s>      costs T^2 (p + d)
        the entries of sum_t left_t right_t'               costs T p d
    """

    left: torch.Tensor
    right: torch.Tensor
    only_left: Dense | None = None
    """The left vectors, where there is one position and somebody else needs their squares too."""

    def squares(self) -> torch.Tensor:
        """By the cheaper way."""
        positions, height, width = self.left.shape[1], self.left.shape[2], self.right.shape[2]
        if positions == 1:
            left = row_squares(self.left) if self.only_left is None else self.only_left.known_squares
            return left * row_squares(self.right)
        if positions * (height + width) < height * width:
            return _dot(self.left @ self.left.mT, self.right @ self.right.mT).clamp_(min=0)
        return row_squares(self.left.mT @ self.right)

    def dense(self) -> torch.Tensor:
        """(B, p, d)."""
        return self.left.mT @ self.right

    def total(self) -> torch.Tensor:
        """(p, d)."""
        return self.left.flatten(0, 1).mT @ self.right.flatten(0, 1)


@final
@dataclass(frozen=True, eq=False)
class RowSum:
    """Row `rows[t]` of a (p, d) weight gets right_t: an embedding. rows (B, T), right (B, T, d)."""

    rows: torch.Tensor
    right: torch.Tensor
    height: int

    def squares(self) -> torch.Tensor:
        """Rows that an example names more than once are added up before they are squared."""
        num_examples = len(self.rows)
        example = torch.arange(num_examples, device=self.rows.device).unsqueeze(1)
        named, which = torch.unique(example * self.height + self.rows, return_inverse=True)
        sums = self.right.new_zeros(len(named), self.right.shape[2])
        sums.index_add_(0, which.flatten(), self.right.flatten(0, 1))
        return self.right.new_zeros(num_examples).index_add_(0, named // self.height, row_squares(sums))

    def dense(self) -> torch.Tensor:
        """(B, p, d)."""
        written = self.right.new_zeros(len(self.rows), self.height, self.right.shape[2])
        return written.scatter_add_(1, self.rows.unsqueeze(2).expand_as(self.right), self.right)

    def total(self) -> torch.Tensor:
        """(p, d)."""
        written = self.right.new_zeros(self.height, self.right.shape[2])
        return written.index_add_(0, self.rows.flatten(), self.right.flatten(0, 1))


def sum_squares(forms: Sequence[Form]) -> torch.Tensor:
    """The squared norm of the sum of several gradients of one parameter, shape (B,)."""
    if len(forms) == 1:
        return forms[0].squares()
    products = [form for form in forms if isinstance(form, OuterSum | RowSum)]
    if len(products) == len(forms) and _products_pay(products):
        total = torch.stack([form.squares() for form in products]).sum(0)
        for i, first in enumerate(products):
            for second in products[:i]:
                total += 2 * _inner(first, second)
        return total.clamp_(min=0)
    written = [form.dense() for form in forms]
    return row_squares(torch.stack([each.reshape(len(each), -1) for each in written]).sum(0))


def row_squares(rows: torch.Tensor) -> torch.Tensor:
    """The sum of squares of each row, shape (B,)."""
    flat = rows.reshape(len(rows), -1)
    squares: torch.Tensor = torch.linalg.vecdot(flat, flat)
    return squares


def _products_pay(forms: "Sequence[OuterSum | RowSum]") -> bool:
    """Whether products over positions are cheaper than the weight written out."""
    positions = sum(form.right.shape[1] for form in forms)
    first = forms[0]
    width, height = first.right.shape[2], first.height if isinstance(first, RowSum) else first.left.shape[2]
    return bool(positions * (width + height) < 2 * width * height)


def _inner(first: "OuterSum | RowSum", second: "OuterSum | RowSum") -> torch.Tensor:
    """The inner product of two gradients of one weight, example by example, shape (B,)."""
    if isinstance(first, OuterSum) and isinstance(second, OuterSum):
        return _dot(first.left @ second.left.mT, first.right @ second.right.mT)
    if isinstance(first, RowSum) and isinstance(second, RowSum):
        same = first.rows.unsqueeze(2) == second.rows.unsqueeze(1)
        return _dot(same.to(first.right.dtype), first.right @ second.right.mT)
    if isinstance(first, OuterSum) and isinstance(second, RowSum):
        index = second.rows.unsqueeze(1).expand(-1, first.left.shape[1], -1)
        return _dot(first.left.gather(2, index), first.right @ second.right.mT)
    return _inner(second, first)


def _dot(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    products: torch.Tensor = torch.linalg.vecdot(first.flatten(1), second.flatten(1))
    return products

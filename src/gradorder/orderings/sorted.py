"""Sorted by score: the order of the paper (Theorems 1 and 3), and its opposite for comparison."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch

from gradorder.orderings.ordering import Order, Ordering, Request


@final
@dataclass(frozen=True)
class Descending(Ordering):
    """Hardest first.

    Rule: score_{sigma(1)} >= score_{sigma(2)} >= ..., ties by index.

    With steps a_1 >= a_2 >= ... and scores ||M_i|| it maximises sum_i a_i ||M_i|| (rearrangement inequality).

    Helps, measured: with a step size that decreases per iteration it ends lowest on synthetic data and Boston (claim
    C2).

    Helps, theory: it makes the first-order term of the bound largest.

    Hurts, measured: at a constant step size it ends above random order on the synthetic problem (claim C1).

    Hurts, theory: the first batches hold the hardest examples only, wrong labels among them: with networks use
    `labels`, `layout="dealt"` or a late `start_epoch`.

    Cost: one sort of N, and scores for every ordered epoch.

    Reference: Xu and Mirzasoleiman (2023), Ordering for Non-Replacement SGD (Theorems 1 and 3).

    Example:
        >>> Descending()(torch.tensor([1.0, 3.0, 2.0]), epoch=0, generator=torch.Generator())
        tensor([1, 2, 0])
    """

    needs_scores: ClassVar[bool] = True

    def order(self, request: Request) -> Order:
        """Largest score first."""
        return Order(request.kept(stable_argsort(request.required_scores, descending=True)))


@final
@dataclass(frozen=True)
class Ascending(Ordering):
    """Easiest first, for comparison.

    Rule: score_{sigma(1)} <= score_{sigma(2)} <= ..., ties by index.

    It minimises what Descending maximises.

    Helps, theory: a curriculum where hard examples are noise.

    Helps, measured: with a step size that decreases per epoch it ends below random order on the synthetic problem
    (claim C3).

    Hurts, measured: with a step size that decreases per iteration it ends above the decreasing order on the synthetic
    problem (claim C2).

    Cost: as Descending.

    Reference: Bengio, Louradour, Collobert and Weston (2009), Curriculum Learning, for easy examples first.
    """

    needs_scores: ClassVar[bool] = True

    def order(self, request: Request) -> Order:
        """Smallest score first."""
        return Order(request.kept(stable_argsort(request.required_scores, descending=False)))


def stable_argsort(scores: torch.Tensor, *, descending: bool) -> torch.Tensor:
    """The sorting permutation, equal scores in the order of their indices.

    float32 on the CPU, the common case, is sorted as whole numbers: the bits of a float, rearranged so that they
    compare like the float, above the bits of its index. No two are equal, so any sort is stable, and numpy's
    for plain numbers is several times faster than one that carries indices along.
    """
    if scores.dtype != torch.float32 or scores.device.type != "cpu" or len(scores) >= 2**32:
        return torch.argsort(scores, descending=descending, stable=True)
    bits = (scores + 0.0).numpy().view(np.uint32)  # + 0.0 makes -0.0 equal to 0.0
    signs = (bits.view(np.int32) >> 31).view(np.uint32)  # all bits of a negative number, none of another
    keys = bits ^ (signs | np.uint32(0x80000000))
    packed = (~keys if descending else keys).astype(np.uint64)
    packed <<= np.uint64(32)
    packed |= np.arange(len(packed), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64(0xFFFFFFFF)
    return torch.from_numpy(packed.view(np.int64))

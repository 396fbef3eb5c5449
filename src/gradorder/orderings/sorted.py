"""Sort by score: hardest first, as in the paper (Theorems 1 and 3), or easiest first."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch

from gradorder.orderings.ordering import Order, Ordering, Request


@final
@dataclass(frozen=True)
class Descending(Ordering):
    """Sort the examples by score, hardest first.

    Rule: score_{sigma(1)} >= score_{sigma(2)} >= ..., ties by index.

    With learning rates a_1 >= a_2 >= ... and scores ||M_i|| it maximises sum_i a_i ||M_i|| (rearrangement inequality).

    When: you follow the paper's Algorithms 1 and 3. Use a learning rate that decreases within the epoch.

    Helps, measured: with a learning rate that decreases per iteration it ends lowest on synthetic data and Boston
    (claim C2).

    Helps, theory: it maximises the first-order term of the bound.

    Hurts, measured: with a constant learning rate it ends above random order on the synthetic problem (claim C1).

    Hurts, theory: the first batches hold only the hardest examples, including noisy labels. For neural networks use
    `labels`, `layout="dealt"` or a late `start_epoch`.

    Cost: one sort of N, and scores for every ordered epoch.

    Reference: Xu and Mirzasoleiman (2023), Ordering for Non-Replacement SGD (Theorems 1 and 3).

    Example:
        >>> Descending()(torch.tensor([1.0, 3.0, 2.0]), epoch=0, generator=torch.Generator())
        tensor([1, 2, 0])
    """

    needs_scores: ClassVar[bool] = True

    def order(self, request: Request) -> Order:
        """Return the examples by decreasing score."""
        return Order(request.kept(stable_argsort(request.required_scores, descending=True)))


@final
@dataclass(frozen=True)
class Ascending(Ordering):
    """Sort the examples by score, easiest first; for comparison.

    Rule: score_{sigma(1)} <= score_{sigma(2)} <= ..., ties by index.

    It minimises the sum that Descending maximises.

    When: for comparison with Descending, or as a curriculum.

    Helps, theory: a curriculum, if the hard examples are noise.

    Helps, measured: with a learning rate that decreases per epoch it ends below random order on the synthetic problem
    (claim C3).

    Hurts, measured: with a learning rate that decreases per iteration it ends above the decreasing order on the
    synthetic problem (claim C2).

    Cost: the same as Descending.

    Reference: Bengio, Louradour, Collobert and Weston (2009), Curriculum Learning, for easy examples first.
    """

    needs_scores: ClassVar[bool] = True

    def order(self, request: Request) -> Order:
        """Return the examples by increasing score."""
        return Order(request.kept(stable_argsort(request.required_scores, descending=False)))


def stable_argsort(scores: torch.Tensor, *, descending: bool) -> torch.Tensor:
    """Return the permutation that sorts the scores, with ties by index.

    float32 on the CPU, the common case, is sorted as 64-bit integers. The upper half holds the bits of the float,
    changed so that integers compare like the floats; the lower half holds the index. No two integers are equal, so
    any sort is stable, and numpy sorts plain integers several times faster than it sorts indices by key.
    """
    if scores.dtype != torch.float32 or scores.device.type != "cpu" or len(scores) >= 2**32:
        return torch.argsort(scores, descending=descending, stable=True)
    bits = (scores + 0.0).numpy().view(np.uint32)  # + 0.0 makes -0.0 equal to 0.0
    signs = (bits.view(np.int32) >> 31).view(np.uint32)  # all bits set for negative numbers, none for others
    keys = bits ^ (signs | np.uint32(0x80000000))
    packed = (~keys if descending else keys).astype(np.uint64)
    packed <<= np.uint64(32)
    packed |= np.arange(len(packed), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64(0xFFFFFFFF)
    return torch.from_numpy(packed.view(np.int64))

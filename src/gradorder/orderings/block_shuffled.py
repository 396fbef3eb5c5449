"""Blocks of consecutive examples, shuffled as blocks and inside."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, Request


@final
@dataclass(frozen=True)
class BlockShuffled(Ordering):
    """Block reshuffling: fixed blocks of consecutive examples, in a new random order each epoch, shuffled inside.

    Rule: example i belongs to block floor(i / block_size); sigma plays block after block in a random order of the
    blocks, and each block in a random order of its own. Blocks as large as the data, or of one example, give Shuffled.

    Helps, theory: data on disk or far away, where neighbours are cheap to read together.

    Hurts, theory: blocks of examples that are alike make batches that are alike.

    Cost: one permutation and one stable sort of N per epoch.

    Reference: Nguyen, Phan and Kalagnanam (2026), Learning to Shuffle: Block Reshuffling and Reversal Schemes for
    Stochastic Optimization. Written from its abstract, which does not say how blocks are formed: here by index.

    Args:
        block_size: examples in a block; the last block may be shorter.
    """

    needs_scores: ClassVar[bool] = False
    block_size: int

    def __post_init__(self) -> None:
        checks.integer("block_size", self.block_size, minimum=1)

    def order(self, request: Request) -> Order:
        """Block after block."""
        generator = request.generator
        num_blocks = -(-request.num_examples // self.block_size)
        turn_of_block = torch.randperm(num_blocks, generator=generator, device=generator.device)
        order = torch.randperm(request.num_examples, generator=generator, device=generator.device)
        return Order(request.kept(order[torch.argsort(turn_of_block[order // self.block_size], stable=True)]))

"""BlockShuffled: shuffle blocks of consecutive examples, and the examples within each block."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, Request


@final
@dataclass(frozen=True)
class BlockShuffled(Ordering):
    """Shuffle fixed blocks of consecutive examples, and the examples within each block, anew every epoch.

    Rule: example i belongs to block floor(i / block_size); sigma visits the blocks in a random order, and the
    examples of each block in a random order. Blocks of one example, or of the whole dataset, give Shuffled.

    When: the data is on disk or remote storage, and neighbours are cheap to read together.

    Helps, theory: data on disk or remote storage, where neighbours are cheap to read together.

    Hurts, theory: if the examples of a block are alike, so are the examples of a batch.

    Cost: one permutation and one stable sort of N per epoch.

    Reference: Nguyen, Phan and Kalagnanam (2026), Learning to Shuffle: Block Reshuffling and Reversal Schemes for
    Stochastic Optimization. Written from its abstract, which does not say how the blocks are formed; here they are
    formed by index.

    Args:
        block_size: the number of examples in a block; the last block may be smaller.
    """

    needs_scores: ClassVar[bool] = False
    block_size: int

    def __post_init__(self) -> None:
        checks.integer("block_size", self.block_size, minimum=1)

    def order(self, request: Request) -> Order:
        """Return the blocks in random order, each shuffled."""
        generator = request.generator
        num_blocks = -(-request.num_examples // self.block_size)
        turn_of_block = torch.randperm(num_blocks, generator=generator, device=generator.device)
        order = torch.randperm(request.num_examples, generator=generator, device=generator.device)
        return Order(request.kept(order[torch.argsort(turn_of_block[order // self.block_size], stable=True)]))

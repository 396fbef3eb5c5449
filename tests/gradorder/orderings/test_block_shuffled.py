from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

import gradorder as go


def order(size, block_size, seed):
    generator = torch.Generator().manual_seed(seed)
    return go.BlockShuffled(block_size)(None, epoch=0, generator=generator, num_examples=size).tolist()


@given(size=st.integers(1, 60), block_size=st.integers(1, 70), seed=st.integers(0, 2**40))
def test_every_block_stays_together(size, block_size, seed):
    blocks = [i // block_size for i in order(size, block_size, seed)]
    changes = sum(one != other for one, other in pairwise(blocks))
    assert changes == len(set(blocks)) - 1


def test_blocks_and_their_insides_are_uniform_and_independent():
    drawn = [tuple(order(6, 3, seed)) for seed in range(7200)]
    counts = {each: drawn.count(each) for each in set(drawn)}
    assert len(counts) == 2 * 6 * 6  # every order of two blocks and of three inside each
    assert max(abs(count - 100) for count in counts.values()) < 5 * 10

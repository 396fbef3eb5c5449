from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from gradorder_lab.data.augmentation import random_crop_and_flip, random_moves


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def crop_and_flip_slowly(images, moves, padding):
    """One image at a time: pad, cut, mirror."""
    results = []
    for image, top, left, flip in zip(images, *moves, strict=True):
        padded = F.pad(image, (padding, padding, padding, padding))
        crop = padded[:, top : top + image.shape[1], left : left + image.shape[2]]
        results.append(crop.flip(2) if flip else crop)
    return torch.stack(results)


@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(0, 4),
    st.integers(0, 99),
    st.sampled_from([torch.uint8, torch.float32]),
)
def test_equals_one_image_at_a_time(num_images, num_channels, height, width, padding, seed, dtype):
    images = torch.randint(1, 256, (num_images, num_channels, height, width), generator=generator(seed)).to(dtype)
    before = images.clone()
    moved = random_crop_and_flip(images, generator(seed), padding)
    expected = crop_and_flip_slowly(images, random_moves(num_images, generator(seed), padding), padding)
    assert moved.dtype == dtype
    assert torch.equal(moved, expected)
    assert torch.equal(images, before)


def test_strided_images():
    images = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8)
    moved = random_crop_and_flip(images.contiguous(memory_format=torch.channels_last), generator())
    assert torch.equal(moved, random_crop_and_flip(images, generator()))


def test_moves_are_uniform_and_independent():
    tops, lefts, flips = random_moves(16200, generator(), padding=4)
    counts = Counter(zip(tops.tolist(), lefts.tolist(), flips.tolist(), strict=True))
    # 9 x 9 x 2 moves, 100 of each expected, give or take five standard deviations.
    assert len(counts) == 162
    assert max(abs(count - 100) for count in counts.values()) < 50


def test_seeded_and_moving_on():
    images = torch.randint(256, (32, 3, 8, 8), dtype=torch.uint8)
    random = generator(5)
    first, second = (random_crop_and_flip(images, random) for _ in range(2))
    assert torch.equal(first, random_crop_and_flip(images, generator(5)))
    assert not torch.equal(first, second)


def test_global_random_state_is_not_touched():
    before = torch.get_rng_state()
    random_crop_and_flip(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), generator())
    assert torch.equal(torch.get_rng_state(), before)


def test_negative_padding():
    with pytest.raises(ValueError, match="padding must be an integer >= 0, got -1"):
        random_crop_and_flip(torch.zeros(2, 3, 8, 8), generator(), padding=-1)

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gradorder as go
from gradorder.orderings.sorted import stable_argsort

floats = st.lists(
    st.one_of(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from([0.0, -0.0, 1.0])),
    min_size=1,
    max_size=60,
)


@given(values=floats, descending=st.booleans())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fast_sort_is_the_stable_sort(dtype, values, descending):
    scores = torch.tensor(values, dtype=dtype)
    expected = sorted(range(len(values)), key=lambda i: -values[i] if descending else values[i])
    assert stable_argsort(scores, descending=descending).tolist() == expected


def test_ties_keep_the_order_of_the_indices():
    scores = torch.tensor([1.0, 2.0, 2.0, 1.0, -0.0, 0.0])
    generator = torch.Generator()
    assert go.Descending()(scores, epoch=0, generator=generator).tolist() == [1, 2, 0, 3, 4, 5]
    assert go.Ascending()(scores, epoch=0, generator=generator).tolist() == [4, 5, 0, 3, 1, 2]


def test_descending_maximises_the_weighted_sum_for_decreasing_steps():
    norms = torch.rand(50, dtype=torch.float64)
    steps = 1 / (1 + torch.arange(50, dtype=torch.float64))
    best = (steps * norms[go.Descending()(norms, epoch=0, generator=torch.Generator())]).sum()
    for seed in range(100):
        other = torch.randperm(50, generator=torch.Generator().manual_seed(seed))
        assert best >= (steps * norms[other]).sum()

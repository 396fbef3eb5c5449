import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import gradorder as go
from gradorder.norms import reference


def by_value(model, batch):
    return batch[0]


VALUES = torch.tensor([3.0, 9.0, 1.0, 9.0, 5.0])


def test_keeps_the_hardest_hardest_first_ties_by_index():
    kept, names = go.KeepHardest(3, by_value)(nn.Identity(), (VALUES, torch.arange(5)))
    assert names.tolist() == [1, 3, 4]
    assert kept.tolist() == [9.0, 9.0, 5.0]


@given(size=st.integers(1, 40), keep=st.floats(0.001, 1))
def test_a_fraction_is_rounded_up(size, keep):
    (kept,) = go.KeepHardest(keep, by_value)(nn.Identity(), (torch.rand(size),))
    assert len(kept) == max(1, math.ceil(keep * size))


@pytest.mark.parametrize(("keep", "expected"), [(1, 1), (1.0, 5), (4, 4), (99, 5), (0.01, 1), (0.5, 3)])
def test_an_int_is_a_count_and_a_float_a_fraction(keep, expected):
    (kept,) = go.KeepHardest(keep, by_value)(nn.Identity(), (VALUES,))
    assert len(kept) == expected


def test_scores_by_the_exact_gradient_norm_at_the_current_weights():
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 3))
    batch = (torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2]))
    order = reference.gradient_norms(model, batch).argsort(descending=True)
    x, y = go.KeepHardest(0.5)(model, batch)
    assert torch.equal(x, batch[0][order[:3]])
    assert torch.equal(y, batch[1][order[:3]])


@pytest.mark.parametrize("keep", [0, -1, 0.0, 1.5, -0.5, math.nan, True, "half", None])
def test_bad_keep_is_refused(keep):
    with pytest.raises(ValueError, match="keep must be"):
        go.KeepHardest(keep)

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import gradorder as go


def by_value(model, batch):
    return batch[0]


def smallest_of_each(losses, k):
    """The slow, obvious version."""
    return [start + int(np.argmin(losses[start : start + k])) for start in range(0, len(losses), k)]


@given(losses=st.lists(st.integers(-3, 3), min_size=1, max_size=30), k=st.integers(1, 12))
def test_the_first_smallest_of_each_group(losses, k):
    values = torch.tensor(losses, dtype=torch.float32)
    _, names = go.SmallestLoss(k, by_value)(nn.Identity(), (values, torch.arange(len(losses))))
    assert names.tolist() == smallest_of_each(np.array(losses), k)


def test_by_the_loss_at_the_current_weights():
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 3))
    batch = (torch.randn(8, 4), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1]))
    losses = nn.functional.cross_entropy(model.eval()(batch[0]), batch[1], reduction="none").detach().numpy()
    x, y = go.SmallestLoss(3)(model.train(), batch)
    expected = smallest_of_each(losses, 3)
    assert len(expected) == 3
    assert torch.equal(x, batch[0][expected])
    assert torch.equal(y, batch[1][expected])

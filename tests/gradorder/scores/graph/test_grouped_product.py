"""Rows in groups, each with a matrix of its own: the operation of transformers for a torch that has none."""

import pytest
import torch
from right_or_refused import alone, assert_right, observed, scored
from torch import nn

moe = pytest.importorskip("transformers.integrations.moe")


class Experts(nn.Module):
    """Every example has three rows, each for the expert that its first number asks for."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.experts = nn.Parameter(torch.randn(3, 4, 5))
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        rows, expert = self.body(x.flatten(0, 1)), x[..., 0].flatten().gt(0).long() * 2  # nobody asks for expert 1
        order = expert.argsort(stable=True)
        ends = torch.bincount(expert, minlength=3).cumsum(0).int()
        products = torch.ops.transformers.grouped_mm_fallback(rows[order], self.experts, ends)
        back = torch.zeros_like(products).index_copy(0, order, products)
        return self.head(back.view(*x.shape[:2], -1).tanh().mean(1))


@pytest.mark.parametrize("size", [2, 3, 7])
def test_every_expert_gets_the_rows_of_each_example(size):
    """Warnings are errors: it is not computed one example at a time."""
    torch.manual_seed(size)
    model, batch = Experts(), (torch.randn(size, 3, 4), torch.arange(size) % 3)
    expected = alone(model, batch)
    assert_right(scored(model, batch), expected)
    assert_right(observed(model, batch), expected)

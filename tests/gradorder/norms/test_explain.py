"""The explanation of how norms are computed."""

import pytest
import torch
from torch import nn

import gradorder as go

BATCH = (torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3)


class Scaled(torch.autograd.Function):
    """An operation that nobody knows."""

    @staticmethod
    def forward(ctx, inputs, weight):
        ctx.save_for_backward(inputs, weight)
        return inputs * weight

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight = ctx.saved_tensors
        return gradient * weight, (gradient * inputs).sum(0)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return Scaled.apply(x, self.weight)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), Scale(), nn.Linear(4, 3))


@pytest.mark.filterwarnings("ignore:the gradient norms of this")
def test_the_slower_way_is_explained():
    explained = go.explain_norms(network(), BATCH)
    assert explained.parameters == ()
    assert "ScaledBackward" in explained.slower_way
    assert "ScaledBackward" in str(explained)


def test_every_parameter_is_explained():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 4)
            self.unused = nn.Linear(2, 2)
            self.head = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))

        def forward(self, x):
            return self.head(torch.tanh(self.body(self.body(x))))

    explained = go.explain_norms(Tied(), BATCH)
    said = {each.name: (each.operations, each.how) for each in explained.parameters}
    assert said["body.weight"][0] == ("Addmm", "Addmm")
    assert "2 times" in said["body.weight"][1]
    assert said["head.bias"][0] == ("Addmm",)
    assert said["unused.weight"][0] == ()
    assert "computed from it" in said["head.parametrizations.weight.original0"][1]
    assert explained.cost > 0
    assert all(name in str(explained) for name in said)


def test_losses_that_depend_on_no_parameter():
    model = nn.Linear(4, 3)
    explained = go.explain_norms(model, BATCH, lambda model, batch: go.cross_entropy(model, batch).detach())
    assert [each.operations for each in explained.parameters] == [(), ()]
    assert explained.slower_way is None


def test_a_hook_on_a_parameter_is_a_reason_for_the_slower_way():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    model[0].weight.register_hook(lambda gradient: gradient * 2)
    with pytest.warns(UserWarning, match="one example at a time"):
        assert "register_hook" in str(go.explain_norms(model, BATCH))

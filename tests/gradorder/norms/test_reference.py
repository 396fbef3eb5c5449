"""The oracle itself, against formulas worked out by hand."""

import torch
from torch import nn

import gradorder as go
from gradorder.norms import reference


def test_linear_regression():
    model = nn.Linear(3, 1).double()
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    residuals = (model(x).flatten() - y).detach()
    rows = reference.per_example_gradients(model, (x, y), go.squared_error)
    torch.testing.assert_close(rows, 2 * residuals[:, None] * torch.cat([x, torch.ones(5, 1)], dim=1))
    norms = reference.gradient_norms(model, (x, y), go.squared_error)
    torch.testing.assert_close(norms, 2 * residuals.abs() * (x.square().sum(1) + 1).sqrt())


def test_softmax_regression():
    model = nn.Linear(4, 3).double()
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])
    errors = model(x).softmax(1).detach() - nn.functional.one_hot(y, 3)
    expected = errors.norm(dim=1) * (x.square().sum(1) + 1).sqrt()
    torch.testing.assert_close(reference.gradient_norms(model, (x, y)), expected)


def test_the_mean_of_the_rows_is_the_gradient_of_the_mean_loss():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    batch = (torch.randn(6, 4), torch.randint(3, (6,)))
    rows = reference.per_example_gradients(model, batch)
    go.cross_entropy(model, batch).mean().backward()
    whole = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    torch.testing.assert_close(rows.mean(0), whole)


def test_frozen_and_unused_parameters():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model.unused = nn.Parameter(torch.ones(3))
    model[0].weight.requires_grad_(requires_grad=False)
    rows = reference.per_example_gradients(model, (torch.randn(3, 2), torch.tensor([0, 1, 0])))
    assert rows.shape == (3, 2 + 4 + 2 + 3)
    assert torch.equal(rows[:, :3], torch.zeros(3, 3))  # a parameter of the container comes first

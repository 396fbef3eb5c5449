"""The fallback: examples are differentiated alone, and all losses and gradients are compared with the batch."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder.norms import reference

SLOWLY = "ignore:the gradient norms of this:UserWarning"


class Opaque(torch.autograd.Function):
    """The identity, as an operation without a rule."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Model(nn.Module):
    """Two linear layers with something in between."""

    def __init__(self, between=lambda hidden: hidden):
        super().__init__()
        self.body, self.head = nn.Linear(5, 8), nn.Linear(8, 3)
        self.between = between

    def forward(self, x):
        return self.head(self.between(self.body(x)).tanh())


def opaque(between=lambda hidden: hidden):
    return Model(lambda hidden: Opaque.apply(between(hidden)))


def batch_of(size=8):
    generator = torch.Generator().manual_seed(size)
    return torch.randn(size, 5, generator=generator), torch.arange(size) % 3


def refused(model, batch, losses=None, match="depends on other examples"):
    """By both functions, and every time."""
    for compute in (go.gradient_norms, go.gradient_norms, go.per_example_gradients):
        with pytest.raises(ValueError, match=match):
            compute(model, batch, losses)


@pytest.mark.filterwarnings(SLOWLY)
@pytest.mark.parametrize("size", [1, 2, 8])
def test_independent_examples_are_right(size):
    model, batch = opaque(), batch_of(size)
    expected = reference.per_example_gradients(model, batch)
    torch.testing.assert_close(go.gradient_norms(model, batch), expected.norm(dim=1))
    torch.testing.assert_close(go.per_example_gradients(model, batch), expected)


COUPLED = {
    "the mean of the batch": lambda hidden: hidden - hidden.mean(0),
    "a detached mean": lambda hidden: hidden - hidden.detach().mean(0),
    "the neighbour": lambda hidden: hidden.roll(1, 0),
    "the size of the batch": lambda hidden: hidden / len(hidden),
    "the last row": lambda hidden: torch.cat([hidden[:-1], hidden[-1:] + 0.1 * hidden[:1].detach()]),
}


@pytest.mark.filterwarnings(SLOWLY)
@pytest.mark.parametrize("between", COUPLED.values(), ids=COUPLED)
def test_coupled_losses_are_refused_behind_an_operation_without_a_rule(between):
    refused(opaque(between), batch_of())


def without_value(tensor):
    """Zero, with the gradient of the tensor."""
    return tensor - tensor.detach()


COUPLED_GRADIENTS = {
    "the mean": lambda hidden: hidden + without_value(hidden.mean(0)),
    "a detached scale": lambda hidden: hidden + 0.1 * len(hidden) * without_value(hidden),
    # In an unweighted sum of all gradients, these cancel.
    "differences of neighbours": lambda hidden: hidden + without_value(hidden.roll(1, 0) - hidden),
}


@pytest.mark.filterwarnings(SLOWLY)
@pytest.mark.parametrize("between", COUPLED_GRADIENTS.values(), ids=COUPLED_GRADIENTS)
def test_gradients_that_depend_on_other_examples_are_refused(between):
    refused(opaque(between), batch_of(), match="other examples")


def test_coupled_gradients_that_cancel_in_the_sum_are_refused():
    """The losses are right, and so is the sum of all gradients."""

    def losses(model, batch):
        values = go.cross_entropy(model, batch)
        return values + without_value(values.roll(1, 0) - values)

    with pytest.raises(ValueError, match="other examples"):
        go.per_example_gradients(Model(), batch_of(), losses)


@pytest.mark.filterwarnings(SLOWLY)
@pytest.mark.parametrize("outlier", [0.0, 1e6])
def test_one_coupled_example_among_many_is_found(outlier):
    def losses(model, batch):
        values = go.cross_entropy(model, batch[:2]) + batch[2]
        return values * (1 + 0.1 * (torch.arange(len(values)) == 5))

    refused(opaque(), (*batch_of(), outlier * (torch.arange(8) == 2)), losses, match="example 5 has")


@pytest.mark.filterwarnings(SLOWLY)
def test_random_losses_are_refused():
    refused(opaque(F.dropout), batch_of(), match="random")


def test_per_example_gradients_of_coupled_losses_are_refused():
    """They are proved like the norms, whatever the graph shows."""
    for between in COUPLED.values():
        with pytest.raises(ValueError, match="depends on other examples"):
            go.per_example_gradients(Model(between), batch_of())


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(200, 64), nn.Linear(64, 1)

    def forward(self, x):
        return Opaque.apply(self.head(self.body(x).tanh()))


@pytest.mark.filterwarnings(SLOWLY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("noise", [1.0, 1e-4, 1e-6, 0.0])
def test_a_regression_that_fits_is_not_refused(noise, dtype):
    """Its losses are rounding noise."""
    model, x = Regression().to(dtype), torch.randn(32, 200, dtype=dtype)
    targets = model(x)[:, 0].detach()
    targets = targets + noise * torch.randn_like(targets)
    assert go.gradient_norms(model, (x, targets), go.squared_error).shape == (32,)


@pytest.mark.filterwarnings(SLOWLY)
@pytest.mark.parametrize("noise", [1.0, 1e-2])
def test_a_regression_that_nearly_fits_and_is_coupled_is_refused(noise):
    model, x = Regression(), torch.randn(32, 200)
    targets = model(x)[:, 0].detach() + noise * (-1) ** torch.arange(32)
    refused(model, (x, targets), lambda model, batch: go.squared_error(model, batch) / len(batch[1]))


@pytest.mark.filterwarnings(SLOWLY)
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_half_precision_does_not_hide_one_part_in_ten(where):
    model = opaque().bfloat16()

    def losses(model, batch):
        values = F.cross_entropy(model(batch[0]).float(), batch[1], reduction="none")
        more = 0.1 * (len(values) > 1) * values
        return values + (more if where == "loss" else without_value(more))

    refused(model, (batch_of(32)[0].bfloat16(), batch_of(32)[1]), losses)


@pytest.mark.filterwarnings(SLOWLY)
def test_an_infinite_loss_does_not_hide_a_coupled_gradient():
    model = opaque(COUPLED_GRADIENTS["the mean"])

    def losses(model, batch):
        return go.cross_entropy(model, batch[:2]) + batch[2]

    refused(model, (*batch_of(), torch.tensor([0.0] * 7 + [float("inf")])), losses)


def test_the_warning_about_the_slow_way_points_at_the_caller():
    for compute in (go.gradient_norms, go.GradientNorm()):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compute(opaque(), batch_of())
        assert [Path(each.filename) for each in caught] == [Path(__file__)]

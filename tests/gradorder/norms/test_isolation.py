"""In every call an example is run alone: neither its loss nor its gradient may depend on the others."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder.norms import reference


class Model(nn.Module):
    """Two linear layers with something of one's own in between."""

    def __init__(self, between=lambda hidden: hidden):
        super().__init__()
        self.body, self.head = nn.Linear(5, 8), nn.Linear(8, 3)
        self.between = between

    def forward(self, x):
        return self.head(self.between(self.body(x)).tanh())


def batch_of(size=8):
    return torch.randn(size, 5), torch.arange(size) % 3


def hooked(change):
    def between(hidden):
        if hidden.requires_grad:
            hidden.register_hook(change)
        return hidden

    return between


def scaled_in_the_gradient_only(hidden):
    normalised = hidden / hidden.square().mean().sqrt().detach()
    return normalised + (hidden - normalised).detach()


IN_THE_GRADIENT = {
    "a hook that normalises": hooked(lambda gradient: gradient / gradient.norm()),
    "a detached scale": scaled_in_the_gradient_only,
}


@pytest.mark.parametrize("between", IN_THE_GRADIENT.values(), ids=IN_THE_GRADIENT)
def test_a_gradient_that_depends_on_other_examples_is_refused(between):
    with pytest.raises(ValueError, match="the gradient of one example depends on other examples"):
        go.gradient_norms(Model(between), batch_of())


def test_a_hook_that_treats_every_example_alike_is_right():
    model, batch = Model(hooked(lambda gradient: gradient * 0.5)), batch_of()
    torch.testing.assert_close(go.gradient_norms(model, batch), reference.gradient_norms(model, batch))


def coupled(model, batch):
    losses = go.squared_error(model, batch)
    return losses * (1 + 0.1 * losses.detach().std(correction=0).tanh())


def test_a_large_loss_does_not_hide_that_the_others_are_coupled():
    model, x = regression(5), torch.randn(16, 5)
    targets = model(x)[:, 0].detach() + 1
    targets[0] += 1e4
    for _ in range(10):
        with pytest.raises(ValueError, match="depends on other examples"):
            go.gradient_norms(model, (x, targets), coupled)


def regression(num_inputs):
    return nn.Sequential(nn.Linear(num_inputs, 64), nn.Tanh(), nn.Linear(64, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("noise", [1.0, 1e-4, 1e-6, 0.0])
def test_a_regression_that_fits_is_not_refused(noise, dtype):
    """Its losses are all rounding."""
    model, x = regression(200).to(dtype), torch.randn(32, 200, dtype=dtype)
    targets = model(x)[:, 0].detach()
    for _ in range(10):
        assert go.gradient_norms(model, (x, targets + noise * torch.randn_like(targets)), go.squared_error).shape == (
            32,
        )


@pytest.mark.parametrize("noise", [1.0, 1e-2])
def test_a_regression_that_nearly_fits_and_is_coupled_is_refused(noise):
    model, x = regression(200), torch.randn(32, 200)
    targets = model(x)[:, 0].detach() + noise * (-1) ** torch.arange(32)

    def losses(model, batch):
        return go.squared_error(model, batch) / len(batch[1])

    for _ in range(10):
        with pytest.raises(ValueError, match="depends on other examples"):
            go.gradient_norms(model, (x, targets), losses)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_half_precision_does_not_hide_one_part_in_ten(where):
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 3)).bfloat16()

    def losses(model, batch):
        values = F.cross_entropy(model(batch[0]).float(), batch[1], reduction="none")
        more = 0.1 * (len(values) > 1) * values
        return values + (more if where == "loss" else more - more.detach())

    batch = torch.randn(32, 20).bfloat16(), torch.arange(32) % 3
    with pytest.raises(ValueError, match="depends on other examples"):
        go.gradient_norms(model, batch, losses)


RANDOM = {"dropout that is always on": F.dropout, "noise": lambda hidden: hidden + torch.randn(8)}


@pytest.mark.parametrize("between", RANDOM.values(), ids=RANDOM)
def test_a_random_loss_is_refused_as_random(between):
    with pytest.raises(ValueError, match=r"the same each time.*random"):
        go.gradient_norms(Model(between), batch_of())


def test_a_batch_that_is_changed_in_place_is_refused_as_such():
    def losses(model, batch):
        batch[0].sub_(0.5)
        return go.cross_entropy(model, batch)

    with pytest.raises(ValueError, match="must not change their batch in place"):
        go.gradient_norms(Model(), batch_of(), losses)


def test_a_batch_that_is_changed_in_place_to_no_effect_is_not():
    def losses(model, batch):
        batch[0].clamp_(-1, 1)
        return go.cross_entropy(model, batch)

    model, (x, y) = Model(), batch_of()
    expected = reference.gradient_norms(model, (x.clamp(-1, 1), y))
    torch.testing.assert_close(go.gradient_norms(model, (x, y), losses), expected)


def test_looking_at_an_example_leaves_no_hooks():
    model = Model()
    go.gradient_norms(model, batch_of())
    assert not any(parameter._backward_hooks for parameter in model.parameters())


def test_what_is_not_a_number_is_no_difference():
    nothing = alone.Seen(float("nan"), float("nan"))
    assert nothing.is_near(alone.Seen(1.0, 1.0), 0.0, 0.0)
    assert not alone.Seen(1.0, 1.0).is_near(alone.Seen(1.0, 2.0), 5.0, 0.5)


@pytest.mark.filterwarnings("ignore:the gradient norms of this:UserWarning")
@pytest.mark.parametrize("outlier", [0.0, 1e6])
def test_one_example_that_depends_on_the_others_is_found_where_each_is_alone(outlier):
    """Without the graph every loss is compared, not one of them."""
    model = Model(lambda hidden: torch.cdist(hidden, torch.eye(8)))

    def losses(model, batch):
        values = go.cross_entropy(model, batch[:2]) + batch[2]
        return values * (1 + 0.1 * (torch.arange(len(values)) == 5))

    with pytest.raises(ValueError, match="example 5 has"):
        go.gradient_norms(model, (*batch_of(), outlier * (torch.arange(8) == 2)), losses)

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder.norms import reference


@pytest.mark.parametrize("losses", [None, go.squared_error])
def test_loss_is_the_loss(losses):
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    batch = (torch.randn(5, 4), torch.rand(5, 3).softmax(1))
    scores = go.Loss(losses)(model, batch)
    torch.testing.assert_close(scores, (losses or go.cross_entropy)(model.eval(), batch).detach())


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 7), (5, 4, 3, 2)])
def test_logit_error_is_the_gradient_of_the_loss_at_the_logits(shape):
    logits = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(4, (shape[0], *shape[2:]))
    if targets.ndim > 1:
        targets[0, 0] = -100
    go.cross_entropy(nn.Identity(), (logits, targets)).sum().backward()
    scores = go.LogitError()(nn.Identity(), (logits, targets))
    torch.testing.assert_close(scores, logits.grad.flatten(1).norm(dim=1))


def test_logit_error_of_probabilities():
    logits, targets = torch.randn(5, 4), torch.rand(5, 4).softmax(1)
    scores = go.LogitError()(nn.Identity(), (logits, targets))
    torch.testing.assert_close(scores, (logits.softmax(1) - targets).norm(dim=1))


def test_logit_error_keeps_the_digits_of_confident_predictions():
    logits = torch.tensor([[20.0, 0.0], [25.0, 0.0], [30.0, 0.0]])
    scores = go.LogitError()(nn.Identity(), (logits, torch.zeros(3, dtype=torch.long)))
    exact = 2**0.5 * torch.exp(-torch.tensor([20.0, 25.0, 30.0], dtype=torch.float64))
    torch.testing.assert_close(scores.double(), exact, rtol=1e-6, atol=0)


def test_logit_error_with_a_function_of_the_users_own():
    model = nn.Linear(4, 3)
    batch = {"x": torch.randn(5, 4), "y": torch.tensor([0, 1, 2, 0, 1])}
    score = go.LogitError(logits=lambda model, batch: (model(batch["x"]), batch["y"]))
    torch.testing.assert_close(score(model, batch), go.LogitError()(model, (batch["x"], batch["y"])))


def last_layer_reference(model, layer, batch, losses=None):
    """The reference with everything but the last layer frozen."""
    model.requires_grad_(requires_grad=False)
    layer.requires_grad_(requires_grad=True)
    return reference.gradient_norms(model, batch, losses)


@pytest.mark.parametrize("bias", [True, False])
def test_last_layer_bound_is_that_layers_gradient(bias):
    last = nn.Linear(8, 3, bias=bias)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(), last)
    batch = (torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2]))
    bound = go.LastLayerBound()(model, batch)
    torch.testing.assert_close(bound, last_layer_reference(model, last, batch))
    assert (bound <= go.gradient_norms(model.requires_grad_(), batch) * (1 + 1e-5)).all()


@pytest.mark.parametrize(("length", "width"), [(3, 40), (50, 2)])
def test_last_layer_bound_over_positions(length, width):
    """Few positions take the Gram matrices, many the gradient itself."""
    last = nn.Linear(width, 5)
    model = nn.Sequential(nn.Linear(4, width), nn.Tanh(), last)
    batch = (torch.randn(6, length, 4), torch.randint(5, (6, length)))

    def losses(model, batch):
        return F.cross_entropy(model(batch[0]).mT, batch[1], reduction="none").mean(1)

    bound = go.LastLayerBound(losses)(model, batch)
    torch.testing.assert_close(bound, last_layer_reference(model, last, batch, losses), rtol=1e-5, atol=1e-7)


def test_last_layer_bound_finds_the_layer_that_runs_last():
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 3)
            self.first = nn.Linear(4, 8)

        def forward(self, x):
            return self.last(self.first(x).relu())

    model, batch = Backwards(), (torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2]))
    torch.testing.assert_close(go.LastLayerBound()(model, batch), last_layer_reference(model, model.last, batch))


def test_last_layer_bound_refuses_models_without_one():
    batch = (torch.randn(2, 2, 4, 4), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"nn\.Linear"):
        go.LastLayerBound()(nn.Sequential(nn.Conv2d(2, 3, 4), nn.Flatten()), batch)
    layer = nn.Linear(4, 4)
    with pytest.raises(ValueError, match="called 2 times"):
        go.LastLayerBound()(nn.Sequential(layer, layer), (torch.randn(2, 4), torch.tensor([0, 1])))


BAD_TARGETS = {
    "an index below 0": (3, torch.tensor([0, -1, 2, 0, 1]), "0 to 2.*got -1"),
    "an index too large": (3, torch.tensor([0, 3, 2, 0, 1]), "0 to 2.*got 3"),
    "true and false": (3, torch.tensor([True] * 5), "class indices"),
    "a column of indices": (3, torch.zeros(5, 1, dtype=torch.long), "class indices"),
    "several labels": (3, torch.ones(5, 3), "1 in sum"),
}


@pytest.mark.parametrize(("classes", "targets", "message"), BAD_TARGETS.values(), ids=BAD_TARGETS)
def test_logit_error_refuses_what_is_no_class(classes, targets, message):
    with pytest.raises(ValueError, match=message):
        go.LogitError()(nn.Linear(4, classes), (torch.randn(5, 4), targets))


def test_logit_error_of_small_integers():
    logits, targets = torch.randn(5, 200), torch.tensor([0, 156, 199, 2, 1])
    scores = go.LogitError()(nn.Identity(), (logits, targets.to(torch.uint8)))
    torch.testing.assert_close(scores, go.LogitError()(nn.Identity(), (logits, targets)))


WEIGHT_NORMS = {"parametrization": nn.utils.parametrizations.weight_norm, "hook": nn.utils.weight_norm}


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
@pytest.mark.parametrize("normed", WEIGHT_NORMS.values(), ids=WEIGHT_NORMS)
def test_last_layer_bound_of_a_weight_normed_layer(normed):
    last = normed(nn.Linear(8, 3))
    model, batch = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), last), (torch.randn(6, 4), torch.arange(6) % 3)
    bound = go.LastLayerBound()(model, batch)
    torch.testing.assert_close(bound, last_layer_reference(model, last, batch))
    assert last.bias.requires_grad


def test_last_layer_bound_of_a_layer_with_a_forward_of_its_own():
    class Doubled(nn.Linear):
        def forward(self, x):
            return F.linear(x, 2 * self.weight, self.bias)

    last = Doubled(8, 3)
    model, batch = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), last), (torch.randn(6, 4), torch.arange(6) % 3)
    torch.testing.assert_close(go.LastLayerBound()(model, batch), last_layer_reference(model, last, batch))


COUPLED_LOSSES = {
    "batch norm": lambda z, y: F.cross_entropy(F.batch_norm(z, None, None, training=True), y, reduction="none"),
    "over all losses": lambda z, y: F.cross_entropy(z, y, reduction="none").softmax(0),
    "batch norm of the losses": lambda z, y: F.batch_norm(
        F.cross_entropy(z, y, reduction="none")[:, None], None, None, training=True
    )[:, 0],
    "similarities": lambda z, y: F.cross_entropy(z @ z.T, torch.arange(len(z)), reduction="none"),
    "examples as channels": lambda z, y: (
        F.batch_norm(z.T, None, None, training=True).T.square().sum(1)
        + F.batch_norm(z, None, None, training=True).square().sum(1)
    ),
}


@pytest.mark.parametrize("losses", COUPLED_LOSSES.values(), ids=COUPLED_LOSSES)
def test_last_layer_bound_refuses_losses_that_couple_examples(losses):
    model, batch = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), (torch.randn(6, 4), torch.arange(6) % 3)
    with pytest.raises(ValueError, match=r"examples|per-example"):
        go.LastLayerBound(lambda model, batch: losses(model(batch[0]), batch[1]))(model, batch)


def test_last_layer_bound_counts_the_call_only():
    """A penalty on the weights of the last layer is no part of its call."""
    last = nn.Linear(8, 3)
    model, batch = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), last), (torch.randn(6, 4), torch.arange(6) % 3)

    def penalized(model, batch):
        return go.cross_entropy(model, batch) + last.weight.square().sum()

    torch.testing.assert_close(go.LastLayerBound(penalized)(model, batch), go.LastLayerBound()(model, batch))

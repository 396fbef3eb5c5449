import pytest
import torch
from torch import nn

import gradorder as go


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 7), (5, 4, 3, 2)])
def test_the_mean_of_cross_entropy_is_torchs(shape):
    logits, targets = torch.randn(shape), torch.randint(4, (shape[0], *shape[2:]))
    losses = go.cross_entropy(nn.Identity(), (logits, targets))
    assert losses.shape == (5,)
    torch.testing.assert_close(losses.mean(), nn.CrossEntropyLoss()(logits, targets))


def test_cross_entropy_of_probabilities():
    logits, targets = torch.randn(5, 4, 3), torch.rand(5, 4, 3).softmax(1)
    losses = go.cross_entropy(nn.Identity(), (logits, targets))
    torch.testing.assert_close(losses.mean(), nn.CrossEntropyLoss()(logits, targets))


def test_ignored_targets_do_not_count():
    logits, targets = torch.randn(2, 4, 3), torch.tensor([[1, -100, 2], [-100, -100, -100]])
    losses = go.cross_entropy(nn.Identity(), (logits, targets))
    torch.testing.assert_close(losses[0], nn.CrossEntropyLoss()(logits[:1], targets[:1]))
    assert losses[1] == 0


@pytest.mark.parametrize(("outputs", "targets"), [((5,), (5,)), ((5, 1), (5,)), ((5,), (5, 1)), ((5, 3), (5, 3))])
def test_the_mean_of_squared_error_is_torchs(outputs, targets):
    y, t = torch.randn(outputs), torch.randn(targets)
    losses = go.squared_error(nn.Identity(), (y, t))
    assert losses.shape == (5,)
    torch.testing.assert_close(losses.mean(), nn.MSELoss()(y, t.reshape(outputs)))


def test_squared_error_never_broadcasts():
    with pytest.raises(ValueError, match=r"\(5, 3\).*\(5,\)"):
        go.squared_error(nn.Identity(), (torch.randn(5, 3), torch.randn(5)))


@pytest.mark.parametrize("losses", [go.cross_entropy, go.squared_error])
@pytest.mark.parametrize("batch", [{"x": 1}, torch.zeros(2, 3), (torch.zeros(2),), (torch.zeros(2), [1, 2])])
def test_other_batches_are_refused_with_advice(losses, batch):
    with pytest.raises(ValueError, match=r"\(inputs, targets\)"):
        losses(nn.Identity(), batch)


NO_CLASSES = {
    "one class": (torch.randn(5, 1), torch.rand(5, 1), r"at least two classes, got shape \(5, 1\)"),
    "one class by index": (torch.randn(5, 1), torch.zeros(5, dtype=torch.long), "at least two classes"),
    "another shape": (torch.randn(5, 4), torch.rand(5), r"probabilities of the logits' shape \(5, 4\)"),
    "several labels": (torch.randn(5, 4), torch.ones(5, 4), "1 in sum over the classes"),
    "negative numbers": (torch.randn(5, 2), torch.tensor([[2.0, -1.0]] * 5), "each >= 0"),
}


@pytest.mark.parametrize(("logits", "targets", "message"), NO_CLASSES.values(), ids=NO_CLASSES)
def test_cross_entropy_refuses_what_is_no_class(logits, targets, message):
    with pytest.raises(ValueError, match=message):
        go.cross_entropy(nn.Identity(), (logits, targets))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_smoothed_labels_are_probabilities(dtype):
    targets = torch.full((5, 1000), 0.1 / 1000).scatter(1, torch.arange(5)[:, None], 0.9 + 0.1 / 1000).to(dtype)
    assert go.cross_entropy(nn.Identity(), (torch.randn(5, 1000, dtype=dtype), targets)).shape == (5,)


def test_a_model_with_one_output_is_not_scored_as_a_classifier():
    model, batch = nn.Linear(3, 1), (torch.randn(5, 3), torch.rand(5, 1))
    for score in (go.GradientNorm(), go.Loss(), go.LogitError(), go.LastLayerBound()):
        with pytest.raises(ValueError, match="at least two classes"):
            score(model, batch)


def test_probabilities_are_not_looked_at_inside_torch_func():
    model, batch = nn.Linear(4, 3), (torch.randn(5, 4), torch.randn(5, 3).softmax(1))
    losses = torch.func.vmap(lambda x, y: go.cross_entropy(model, (x[None], y[None]))[0])(*batch)
    torch.testing.assert_close(losses, go.cross_entropy(model, batch))

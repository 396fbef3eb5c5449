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
    with pytest.raises(ValueError, match=r"got outputs \(5, 3\) and targets \(5,\)"):
        go.squared_error(nn.Identity(), (torch.randn(5, 3), torch.randn(5)))


@pytest.mark.parametrize("losses", [go.cross_entropy, go.squared_error])
@pytest.mark.parametrize("batch", [{"x": 1}, torch.zeros(2, 3), (torch.zeros(2),), (torch.zeros(2), [1, 2])])
def test_other_batches_are_refused_with_advice(losses, batch):
    with pytest.raises(ValueError, match=r"takes a batch \(inputs, targets\).*pass your own function"):
        losses(nn.Identity(), batch)

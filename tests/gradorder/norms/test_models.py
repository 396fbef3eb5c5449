"""Whole models: exact, by both methods."""

import pytest
import torch
from decoder import DecoderLanguageModel
from torch import nn
from torch.nn import functional as F
from unet import UNet

import gradorder as go
from gradorder.norms import factored, reference
from gradorder_lab import models


def language_losses(model, batch):
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.mT, batch[:, 1:], reduction="none").mean(1)


def of_images(make, channels, side):
    return lambda size: (make(), (torch.randn(size, channels, side, side), torch.randint(10, (size,))), None)


MODELS = {
    "mlp": of_images(lambda: models.mlp(49, 16), 1, 7),
    "conv net": of_images(models.conv_net, 1, 28),
    "ResNet-20": of_images(lambda: models.resnet20(width=8), 3, 32),
    "transformer": lambda size: (
        models.TransformerClassifier(width=32, depth=2, length=9, feedforward=64),
        (torch.randint(1000, (size, 9)), torch.randint(10, (size,))),
        None,
    ),
    "decoder": lambda size: (DecoderLanguageModel(50), torch.randint(50, (size, 9)), language_losses),
    "LSTM": lambda size: (models.RecurrentClassifier(), (torch.randn(size, 6, 8), torch.arange(size) % 3), None),
    "U-Net": lambda size: (UNet(), (torch.randn(size, 1, 16, 16), torch.randint(2, (size, 16, 16))), None),
}


def make(name, size):
    torch.manual_seed(2)
    model, batch, losses = MODELS[name](size)
    for buffer_name, buffer in model.named_buffers():
        if "running" in buffer_name:
            buffer.uniform_(0.5, 1.5)
    return model, batch, losses


def observed(model, batch, losses=None):
    """The norms of a training step of a model that is in eval mode."""
    with go.observe_gradient_norms(model) as seen:
        seen.losses((losses or go.cross_entropy)(model, batch)).mean().backward()
        return seen.norms


def double(model, batch):
    parts = batch if isinstance(batch, tuple) else (batch,)
    parts = tuple(part.double() if part.is_floating_point() else part for part in parts)
    return model.double().eval(), parts if isinstance(batch, tuple) else parts[0]


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("name", MODELS)
def test_whole_models(name, size):
    model, batch, losses = make(name, size)
    if size == 2:
        model, batch = double(model, batch)
    tolerance = 1e-10 if size == 2 else 1e-5
    if size == 2:
        gradients = reference.per_example_gradients(model, batch, losses)
        rows = go.per_example_gradients(model, batch, losses)
        torch.testing.assert_close(rows, gradients, rtol=tolerance, atol=tolerance * float(gradients.abs().max()))
    expected = reference.gradient_norms(model, batch, losses)
    norms = go.gradient_norms(model, batch, losses)
    torch.testing.assert_close(norms, expected, rtol=tolerance, atol=0)
    torch.testing.assert_close(go.GradientNorm(losses)(model, batch), norms, rtol=0, atol=0)
    torch.testing.assert_close(observed(model.eval(), batch, losses), expected, rtol=tolerance, atol=0)


def test_channels_last():
    model, batch, losses = make("ResNet-20", 5)
    expected = reference.gradient_norms(model, batch, losses)
    model.to(memory_format=torch.channels_last)
    batch = (batch[0].contiguous(memory_format=torch.channels_last), batch[1])
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected, rtol=1e-5, atol=0)


BATCH = (torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 0, 1]))


class Custom(nn.Module):
    """A model given by its forward function."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._forward = forward

    def forward(self, x):
        return self._forward(self, x)


def test_a_tied_embedding_is_not_written_out(monkeypatch):
    """Nothing of the size (B, V, d) is made where products are cheaper."""
    model, batch, losses = make("decoder", 3)
    expected = reference.gradient_norms(model, batch, losses)
    go.gradient_norms(model, batch, losses)
    for form in (factored.OuterSum, factored.RowSum):
        monkeypatch.setattr(form, "dense", lambda self: pytest.fail("written out"))
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected, rtol=1e-5, atol=0)


def test_a_slower_way_is_said_once_with_its_reason():
    model = Custom(lambda m, x: Doubled.apply(m.body(x)), body=nn.Linear(4, 3))
    expected = reference.gradient_norms(model, BATCH)
    with pytest.warns(UserWarning, match=r"Doubled"):
        torch.testing.assert_close(go.gradient_norms(model, BATCH), expected)
    torch.testing.assert_close(go.gradient_norms(model, BATCH), expected)


class Doubled(torch.autograd.Function):
    """An operation of one's own."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def test_hooks_of_the_users_own_still_run():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    calls = []
    model[0].register_forward_hook(lambda *_: calls.append(1))
    expected = reference.gradient_norms(model, BATCH)
    calls.clear()
    torch.testing.assert_close(go.gradient_norms(model, BATCH), expected)
    assert calls


def test_batch_norm_without_running_statistics_is_refused():
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 3))
    with pytest.raises(ValueError, match=r"BatchNorm.*track_running_stats"):
        go.gradient_norms(model, BATCH)


def test_a_changed_input_is_noticed():
    def forward(model, x):
        hidden = model.body(x)
        out = model.head(hidden)
        hidden.add_(1)
        return out

    model = Custom(forward, body=nn.Linear(4, 4), head=nn.Linear(4, 3))
    with pytest.raises(RuntimeError, match=r"in.?place"):
        go.gradient_norms(model, BATCH)


def test_the_chain_leaves_the_batch_alone():
    model = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(4, 3))
    x = BATCH[0].clone()
    expected = reference.gradient_norms(model, (x, BATCH[1]))
    torch.testing.assert_close(go.gradient_norms(model, (x, BATCH[1])), expected)
    assert torch.equal(x, BATCH[0])


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_chains(shape):
    for model in (
        nn.Linear(4, 1),
        nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Identity(), nn.Linear(6, 1)),
    ):
        batch = (BATCH[0], torch.randn(shape))
        expected = reference.gradient_norms(model, batch, go.squared_error)
        torch.testing.assert_close(go.gradient_norms(model, batch, go.squared_error), expected)
    ignored = (BATCH[0], torch.tensor([0, -100, 2, 0, 1]))
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    torch.testing.assert_close(go.gradient_norms(model, ignored), reference.gradient_norms(model, ignored))


def test_a_hook_on_all_modules_is_not_passed_by():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: 2 * output)
    try:
        torch.testing.assert_close(go.gradient_norms(model, BATCH), reference.gradient_norms(model, BATCH))
    finally:
        handle.remove()

"""Whole models: exact, and by the fast way unless said otherwise."""

import pytest
import torch
from decoder import DecoderLanguageModel
from torch import nn
from torch.nn import functional as F
from unet import UNet

import gradorder as go
from gradorder.norms import factored, reference
from gradorder.norms.operation import UnprovenError
from gradorder.norms.walk import walk
from gradorder_lab import models

SLOWLY = "ignore:the gradient norms of this .* are computed one example at a time"


def is_proved(model, batch, losses=None):
    """Whether the graph serves, and no slower way is needed."""
    values = (losses or go.cross_entropy)(model.eval(), batch)
    try:
        walk(values, {id(parameter) for parameter in model.parameters()})
    except UnprovenError:
        return False
    return True


def language_losses(model, batch):
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.mT, batch[:, 1:], reduction="none").mean(1)


MODELS = {
    "mlp": lambda size: (models.mlp(49, 16), (torch.randn(size, 1, 7, 7), torch.randint(10, (size,))), None),
    "conv net": lambda size: (models.conv_net(), (torch.randn(size, 1, 28, 28), torch.randint(10, (size,))), None),
    "ResNet-20": lambda size: (
        models.resnet20(width=8),
        (torch.randn(size, 3, 32, 32), torch.randint(10, (size,))),
        None,
    ),
    "ResNet-18": lambda size: (
        models.resnet18(width=8),
        (torch.randn(size, 3, 32, 32), torch.randint(100, (size,))),
        None,
    ),
    "transformer": lambda size: (
        models.TransformerClassifier(width=32, depth=2, length=9, feedforward=64),
        (torch.randint(1000, (size, 9)), torch.randint(10, (size,))),
        None,
    ),
    "decoder": lambda size: (DecoderLanguageModel(50), torch.randint(50, (size, 9)), language_losses),
    "LSTM": lambda size: (models.RecurrentClassifier(), (None, None), None),
    "U-Net": lambda size: (UNet(), (None, None), None),
}


def make(name, size):
    torch.manual_seed(2)
    model, batch, losses = MODELS[name](size)
    if name == "LSTM":
        features = (
            model.lstm.input_size
            if hasattr(model, "lstm")
            else next(m for m in model.modules() if isinstance(m, nn.LSTM)).input_size
        )
        batch = (torch.randn(size, 6, features), torch.arange(size) % 3)
    if name == "U-Net":
        first = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
        images = torch.randn(size, first.in_channels, 16, 16)
        classes = model(images).shape[1]
        batch = (images, torch.randint(classes, (size, 16, 16)))
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


@pytest.mark.parametrize("size", [1, 2, 17])
@pytest.mark.parametrize("name", MODELS)
def test_whole_models(name, size):
    model, batch, losses = make(name, size)
    if size == 2:
        model, batch = double(model, batch)
    tolerance = 1e-10 if size == 2 else 1e-5
    expected = reference.gradient_norms(model, batch, losses)
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected, rtol=tolerance, atol=0)
    torch.testing.assert_close(observed(model.eval(), batch, losses), expected, rtol=tolerance, atol=0)


@pytest.mark.parametrize("name", ["conv net", "ResNet-20", "ResNet-18"])
def test_channels_last(name):
    model, batch, losses = make(name, 5)
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


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.by * x


class TwoOutputs(Scale):
    """The first output has no gradient."""

    def forward(self, x):
        return x.detach().abs(), self.by * x


def shared_weights():
    layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
    layers[1].weight = layers[0].weight
    return layers


def with_temperature():
    model = nn.Linear(4, 3)
    model.temperature = nn.Parameter(torch.tensor(1.3))
    return model, BATCH, lambda m, b: F.cross_entropy(m(b[0]) * m.temperature, b[1], reduction="none")


def tied(vocabulary, length):
    model = Custom(lambda m, x: m.head(m.body(m.embedding(x)).tanh()), embedding=nn.Embedding(vocabulary, 6),
                   body=nn.Linear(6, 6), head=nn.Linear(6, vocabulary, bias=False))  # fmt: skip
    model.head.weight = model.embedding.weight
    tokens = torch.randint(vocabulary, (5, length))
    return model, (tokens, tokens), lambda m, b: F.cross_entropy(m(b[0]).mT, b[1], reduction="none").sum(1)


def positions_first(length):
    """(T, B, d) inside: rows are not examples, whether T and B differ or not."""
    model = Custom(lambda m, x: m.head(m.body(x.transpose(0, 1)).tanh().mean(0)), **body_and_head())
    return model, (torch.randn(5, length, 4), BATCH[1]), None


def with_experts(model, x):
    """`out[rows] = expert(hidden[rows])`."""
    hidden = model.body(x)
    written = 0 * hidden
    for number, expert in enumerate(model.experts):
        rows = (torch.arange(len(x)) % 2 == number).nonzero()[:, 0]
        written[rows] = expert(hidden[rows])
    return model.head(written)


def with_deep_weight(model, x):
    """Computed by more operations than Python's stack is deep."""
    weight = model.body.weight
    for _ in range(1500):
        weight = weight * 1.0 + 0.0
    return x @ weight.T


def with_hooked_weight(model, x):
    weight = model.body.weight * 2
    if weight.requires_grad:
        weight.register_hook(lambda gradient: 3 * gradient)
    return x @ weight.T


def dict_losses(model, batch):
    out = model(batch[0])
    return F.cross_entropy(out["logits"], batch[1], reduction="none") + out["rest"][0].square().sum(1)


def body_and_head():
    return {"body": nn.Linear(4, 4), "head": nn.Linear(4, 3)}


def hooked():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    model[0].register_forward_hook(lambda module, args, output: 3 * output)
    return model


SMALL = {
    "a layer called twice": lambda: (Custom(lambda m, x: m.head(m.body(m.body(x).tanh())), **body_and_head()), BATCH),
    "a convolution called twice": lambda: (
        Custom(lambda m, x: m.conv(m.conv(x.view(-1, 1, 2, 2)).relu()).flatten(1)[:, :3],
               conv=nn.Conv2d(1, 1, 3, padding=1)),
        BATCH,
    ),
    "an embedding called twice": lambda: (
        Custom(lambda m, x: m.head(m.table(x[:, :3]).tanh().mean(1) * m.table(x[:, 2:]).mean(1)),
               table=nn.Embedding(40, 6), head=nn.Linear(6, 3)),
        (torch.randint(40, (5, 6)), BATCH[1]),
    ),
    "a scalar used twice": lambda: (
        Custom(lambda m, x: m.head(m.scale(m.scale(x).tanh())), scale=Scale(), head=nn.Linear(4, 3)), BATCH
    ),
    "attention called twice": lambda: (
        Custom(lambda m, x: m.attention(m.first(x), *[m.attention(x, x, x)[0]] * 2)[0].mean(1)[:, :3],
               first=nn.Linear(8, 8), attention=nn.MultiheadAttention(8, 2, batch_first=True)),
        (torch.randn(5, 4, 8), BATCH[1]),
    ),
    "shared weights": lambda: (nn.Sequential(*shared_weights(), nn.Tanh(), nn.Linear(4, 3)), BATCH),
    "shared weights in a chain": lambda: (
        nn.Sequential(shared_weights()[0], nn.ReLU(), *shared_weights(), nn.ReLU(), nn.Linear(4, 3)), BATCH
    ),
    "an embedding tied to the head, few positions": lambda: tied(40, 3),
    "an embedding tied to the head, many positions": lambda: tied(5, 12),
    "a weight used by hand": lambda: (
        Custom(lambda m, x: F.linear(m.body(x), m.body.weight)[:, :3], body=nn.Linear(4, 4)), BATCH
    ),
    "a parameter in the loss": with_temperature,
    "positions first": lambda: positions_first(3),
    "positions first, as many as examples": lambda: positions_first(5),
    "statistics without grad": lambda: (
        Custom(lambda m, x: m.body(x) - m.body(x).detach().mean(0), body=nn.Linear(4, 3)), BATCH
    ),
    "activations in place": lambda: (
        nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.LayerNorm(6), nn.SiLU(inplace=True),
                      nn.Linear(6, 3), nn.Dropout(0.5)),
        BATCH,
    ),
    "a dict of outputs": lambda: (
        Custom(lambda m, x: {"logits": m.head(x), "rest": (m.other(x), 3)},
               head=nn.Linear(4, 3), other=nn.Linear(4, 2)),
        BATCH, dict_losses,
    ),
    "an output without gradient": lambda: (
        Custom(lambda m, x: m.head(m.two(x)[1]), two=TwoOutputs(), head=nn.Linear(4, 3)), BATCH
    ),
    "rows written by an index": lambda: (
        Custom(with_experts, experts=nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]), **body_and_head()), BATCH
    ),
    "a deep graph of parameters": lambda: (Custom(with_deep_weight, body=nn.Linear(4, 3, bias=False)), BATCH),
    "a hook on a computed weight": lambda: (Custom(with_hooked_weight, body=nn.Linear(4, 3, bias=False)), BATCH),
    "a hook that changes an output": lambda: (hooked(), BATCH),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_small_models(name):
    model, batch, *losses = SMALL[name]()
    model, batch = double(model, batch)
    losses = losses[0] if losses else None
    expected = reference.gradient_norms(model, batch, losses)
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(observed(model, batch, losses), expected, rtol=1e-9, atol=0)
    assert is_proved(model, batch, losses)


def test_a_tied_embedding_is_not_written_out(monkeypatch):
    """Nothing of the size (B, V, d) is made where products are cheaper."""
    model, batch, losses = make("decoder", 3)
    expected = reference.gradient_norms(model, batch, losses)
    go.gradient_norms(model, batch, losses)
    for form in (factored.OuterSum, factored.RowSum):
        monkeypatch.setattr(form, "dense", lambda self: pytest.fail("written out"))
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected, rtol=1e-5, atol=0)


@pytest.mark.filterwarnings(SLOWLY)
def test_examples_that_mix_are_refused():
    model = Custom(lambda m, x: m.head(m.body(x) - m.body(x).mean(0)), body=nn.Linear(4, 4), head=nn.Linear(4, 3))
    with pytest.raises(ValueError, match=r"other examples"):
        go.gradient_norms(model, BATCH)


@pytest.mark.filterwarnings(SLOWLY)
def test_one_example_says_nothing_about_the_next_batch():
    model = Custom(lambda m, x: m.head(m.body(x) * m.body(x).mean(0)), body=nn.Linear(4, 4), head=nn.Linear(4, 3))
    one = (BATCH[0][:1], BATCH[1][:1])
    torch.testing.assert_close(go.gradient_norms(model, one), reference.gradient_norms(model, one))
    with pytest.raises(ValueError, match="depends on other examples"):
        go.gradient_norms(model, BATCH)


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


@pytest.mark.filterwarnings(SLOWLY)
def test_a_roll_through_everything_mixes_examples():
    model = Custom(lambda m, x: m.head(m.body(x).roll(3)), body=nn.Linear(4, 4), head=nn.Linear(4, 3))
    assert not is_proved(model, BATCH)
    with pytest.raises(ValueError, match="depends on other examples"):
        go.gradient_norms(model, BATCH)


@pytest.mark.filterwarnings(SLOWLY)
def test_a_rounded_quotient_has_no_gradient():
    model = Custom(
        lambda m, x: m.body(x) + torch.div(m.body(x).detach(), m.scale, rounding_mode="floor"), body=nn.Linear(4, 3)
    )
    model.scale = nn.Parameter(torch.tensor([0.3, 0.7, 0.9]))
    torch.testing.assert_close(go.gradient_norms(model, BATCH), reference.gradient_norms(model, BATCH))


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


def test_autocast_gives_float32_close_to_the_exact_norm():
    model, batch, losses = make("conv net", 4)
    exact = go.gradient_norms(model, batch, losses)
    with torch.autocast("cpu", torch.bfloat16):
        norms = go.gradient_norms(model, batch, losses)
    assert norms.dtype == torch.float32
    torch.testing.assert_close(norms, exact, rtol=0.1, atol=0)


def test_the_slow_way_agrees_with_the_fast_one():
    model, batch, losses = make("U-Net", 4)
    fast = go.gradient_norms(model, batch, losses)
    alone = go.per_example_gradients(model, batch, losses).norm(dim=1)
    torch.testing.assert_close(fast, alone, rtol=1e-5, atol=0)


def test_a_hook_on_all_modules_is_not_passed_by():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: 2 * output)
    try:
        torch.testing.assert_close(go.gradient_norms(model, BATCH), reference.gradient_norms(model, BATCH))
    finally:
        handle.remove()

"""Whole models: exact, and by the fast way unless said otherwise."""

import pytest
import torch
from decoder import DecoderLanguageModel
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
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


@pytest.mark.parametrize("size", [1, 2, 17])
@pytest.mark.parametrize("name", MODELS)
def test_whole_models(name, size):
    model, batch, losses = make(name, size)
    expected = reference.gradient_norms(model, batch, losses)
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_whole_models_in_double_precision(name):
    model, batch, losses = make(name, 3)
    model.double()
    batch = (batch[0].double(), batch[1]) if isinstance(batch, tuple) and batch[0].is_floating_point() else batch
    expected = reference.gradient_norms(model, batch, losses)
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", ["conv net", "ResNet-20", "ResNet-18"])
def test_channels_last(name):
    model, batch, losses = make(name, 5)
    expected = reference.gradient_norms(model, batch, losses)
    model.to(memory_format=torch.channels_last)
    batch = (batch[0].contiguous(memory_format=torch.channels_last), batch[1])
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected, rtol=1e-5, atol=0)


def assert_right(model, batch, losses=None, *, proved=True):
    model.double()
    batch = tuple(t.double() if t.is_floating_point() else t for t in batch)
    expected = reference.gradient_norms(model, batch, losses)
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected, rtol=1e-9, atol=0)
    assert is_proved(model, batch, losses) == proved


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


def test_a_layer_called_twice():
    model = Custom(lambda m, x: m.head(m.body(m.body(x).tanh())), body=nn.Linear(4, 4), head=nn.Linear(4, 3))
    assert_right(model, BATCH)


def test_a_convolution_called_twice():
    model = Custom(
        lambda m, x: m.conv(m.conv(x.view(5 if len(x) == 5 else len(x), 1, 2, 2)).relu()).flatten(1)[:, :3],
        conv=nn.Conv2d(1, 1, 3, padding=1),
    )
    assert_right(model, BATCH)


def test_weights_shared_between_layers():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    assert_right(nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), nn.Linear(4, 3)), BATCH)


def test_weights_shared_inside_a_chain():
    layer = nn.Linear(4, 4)
    other = nn.Linear(4, 4)
    other.weight = layer.weight
    for model in (nn.Sequential(layer, nn.ReLU(), layer), nn.Sequential(layer, nn.ReLU(), other)):
        torch.testing.assert_close(go.gradient_norms(model, BATCH), reference.gradient_norms(model, BATCH))


def test_a_module_with_a_scalar_called_twice():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.by = nn.Parameter(torch.tensor(1.5))

        def forward(self, x):
            return self.by * x

    model = Custom(lambda m, x: m.head(m.scale(m.scale(x).tanh())), scale=Scale(), head=nn.Linear(4, 3))
    assert_right(model, BATCH)


def test_a_tied_embedding_is_not_written_out(monkeypatch):
    """Nothing of the size (B, V, d) is made where products are cheaper."""
    model, batch, losses = make("decoder", 3)
    expected = reference.gradient_norms(model, batch, losses)
    go.gradient_norms(model, batch, losses)
    for form in (factored.OuterSum, factored.RowSum):
        monkeypatch.setattr(form, "dense", lambda self: pytest.fail("written out"))
    torch.testing.assert_close(go.gradient_norms(model, batch, losses), expected, rtol=1e-5, atol=0)


def test_an_embedding_called_twice():
    model = Custom(
        lambda m, x: m.head(m.embedding(x[:, :3]).tanh().mean(1) * m.embedding(x[:, 2:]).mean(1)),
        embedding=nn.Embedding(40, 6), head=nn.Linear(6, 3),
    )  # fmt: skip
    assert_right(model, (torch.randint(40, (5, 6)), BATCH[1]))


def test_attention_to_itself_and_to_others_with_the_same_weights():
    model = Custom(
        lambda m, x: m.attention(m.first(x), *[m.attention(x, x, x)[0]] * 2)[0].mean(1)[:, :3],
        first=nn.Linear(8, 8), attention=nn.MultiheadAttention(8, 2, batch_first=True),
    )  # fmt: skip
    assert_right(model, (torch.randn(5, 4, 8), BATCH[1]))


@pytest.mark.parametrize(("vocabulary", "length"), [(40, 3), (5, 12)])
def test_an_embedding_tied_to_the_head(vocabulary, length):
    """Few positions: by products; many: written out."""
    model = Custom(lambda m, x: m.head(m.body(m.embedding(x)).tanh()), embedding=nn.Embedding(vocabulary, 6),
                   body=nn.Linear(6, 6), head=nn.Linear(6, vocabulary, bias=False))  # fmt: skip
    model.head.weight = model.embedding.weight
    tokens = torch.randint(vocabulary, (5, length))
    assert_right(model, (tokens, tokens), lambda m, b: F.cross_entropy(m(b[0]).mT, b[1], reduction="none").sum(1))


def test_a_weight_used_by_hand_elsewhere_is_noticed():
    model = Custom(lambda m, x: F.linear(m.body(x), m.body.weight)[:, :3], body=nn.Linear(4, 4))
    assert_right(model, BATCH)


def test_a_parameter_used_in_the_loss():
    model = Custom(lambda m, x: m.body(x), body=nn.Linear(4, 3))
    model.temperature = nn.Parameter(torch.tensor(1.3))
    losses = lambda m, b: F.cross_entropy(m(b[0]) * m.temperature, b[1], reduction="none")  # noqa: E731
    assert_right(model, BATCH, losses)


def test_positions_first():
    """(T, B, d) inside: rows are not examples, whether T and B differ or not."""
    for length in (3, 5):
        model = Custom(lambda m, x: m.head(m.body(x.transpose(0, 1)).tanh().mean(0)),
                       body=nn.Linear(4, 4), head=nn.Linear(4, 3))  # fmt: skip
        assert_right(model, (torch.randn(5, length, 4), BATCH[1]))


@pytest.mark.parametrize("shape", [(7,), (1, 7), (5,), (1, 5)])
def test_positions_looked_up_once_for_the_batch(shape):
    model = Custom(lambda m, x: m.head((m.body(x) + m.positions(torch.arange(shape[-1]).view(shape))).tanh().mean(1)),
                   body=nn.Linear(4, 4), positions=nn.Embedding(9, 4), head=nn.Linear(4, 3))  # fmt: skip
    assert_right(model, (torch.randn(5, shape[-1], 4), BATCH[1]))


@pytest.mark.filterwarnings(SLOWLY)
def test_examples_that_mix_are_refused():
    model = Custom(lambda m, x: m.head(m.body(x) - m.body(x).mean(0)), body=nn.Linear(4, 4), head=nn.Linear(4, 3))
    with pytest.raises(ValueError, match=r"depends on other examples.*alone and .* in the batch"):
        go.gradient_norms(model, BATCH)


@pytest.mark.filterwarnings(SLOWLY)
def test_one_example_says_nothing_about_the_next_batch():
    model = Custom(lambda m, x: m.head(m.body(x) * m.body(x).mean(0)), body=nn.Linear(4, 4), head=nn.Linear(4, 3))
    one = (BATCH[0][:1], BATCH[1][:1])
    torch.testing.assert_close(go.gradient_norms(model, one), reference.gradient_norms(model, one))
    with pytest.raises(ValueError, match="depends on other examples"):
        go.gradient_norms(model, BATCH)


def test_statistics_without_grad_are_constants():
    """The norm is that of the gradient of each loss as computed in this batch."""
    model = Custom(lambda m, x: m.body(x) - m.body(x).detach().mean(0), body=nn.Linear(4, 3))
    assert is_proved(model, BATCH)
    assert_right(model, BATCH)


def test_a_slower_way_is_said_once_with_its_reason():
    model = Custom(lambda m, x: Doubled.apply(m.body(x)), body=nn.Linear(4, 3))
    expected = reference.gradient_norms(model, BATCH)
    with pytest.warns(UserWarning, match=r"one example at a time.*no rule for the operation Doubled"):
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


def test_inplace_relu_after_the_first_layer_and_later():
    model = nn.Sequential(
        nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 3)
    )
    model.append(nn.Dropout(0.5))  # not a plain chain
    assert_right(model, BATCH)


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad", SLOWLY)
def test_checkpointed_activations(use_reentrant):
    model = Custom(
        lambda m, x: m.head(checkpoint(m.body, m.first(x), use_reentrant=use_reentrant)),
        first=nn.Linear(4, 4), body=nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), head=nn.Linear(4, 3),
    )  # fmt: skip
    model.double()
    batch = (BATCH[0].double(), BATCH[1])
    if use_reentrant:
        with pytest.raises(RuntimeError):  # torch's own refusal, or ours
            go.gradient_norms(model, batch)
    else:
        expected = reference.gradient_norms(model, batch)
        torch.testing.assert_close(go.gradient_norms(model, batch), expected, rtol=1e-9, atol=0)


def test_models_that_return_dicts_and_tuples():
    model = Custom(
        lambda m, x: {"logits": m.head(x), "rest": (m.other(x), 3)}, head=nn.Linear(4, 3), other=nn.Linear(4, 2)
    )
    losses = lambda m, b: F.cross_entropy(m(b[0])["logits"], b[1], reduction="none")  # noqa: E731
    assert_right(model, BATCH, losses)
    both = lambda m, b: losses(m, b) + m(b[0])["rest"][0].square().sum(1)  # noqa: E731
    expected = reference.gradient_norms(model, tuple(t.double() if t.is_floating_point() else t for t in BATCH), both)
    norms = go.gradient_norms(model, tuple(t.double() if t.is_floating_point() else t for t in BATCH), both)
    torch.testing.assert_close(norms, expected, rtol=1e-9, atol=0)


def test_only_a_weight_or_only_a_bias_is_frozen():
    for frozen in ("0.weight", "0.bias", "2.weight", "2.bias"):
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        dict(model.named_parameters())[frozen].requires_grad_(False)
        assert_right(model, BATCH)


def test_hooks_of_the_users_own_still_run():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    calls = []
    model[0].register_forward_hook(lambda *_: calls.append(1))
    expected = reference.gradient_norms(model, BATCH)
    calls.clear()
    torch.testing.assert_close(go.gradient_norms(model, BATCH), expected)
    assert calls


def test_a_replaced_layer_is_looked_at_anew():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    assert_right(model, BATCH)
    model[0] = Custom(lambda m, x: F.linear(m.body(x), m.body.weight), body=nn.Linear(4, 4).double())
    batch = (BATCH[0].double(), BATCH[1])
    torch.testing.assert_close(
        go.gradient_norms(model, batch), reference.gradient_norms(model, batch), rtol=1e-9, atol=0
    )


def test_batch_norm_without_running_statistics_is_refused():
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 3))
    with pytest.raises(ValueError, match=r"BatchNorm normalizes by .*no per-example gradient.*track_running_stats"):
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

"""Layers by the graph against the reference: hypothesis draws shapes, float32 and float64, batches of 1, 2 and 17."""

import copy
import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from right_or_refused import alone_as_it_is, assert_right
from torch import nn

import gradorder as go
from gradorder.norms import reference
from gradorder.norms.operation import UnprovenError
from gradorder.norms.rules import convolution as squares
from gradorder.norms.squared_norms import squared_norms
from gradorder.norms.walk import walk

batch_sizes = st.sampled_from([1, 2, 17])
dtypes = st.sampled_from([torch.float32, torch.float64])
few = settings(max_examples=settings().max_examples // 4)


class Around(nn.Module):
    """The layer inside a model."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        out = self.layer(x)
        return out[0] if isinstance(out, tuple) else out


def by_graph(model, batch, losses):
    """Without another way to go where the graph proves nothing."""
    values = losses(model, batch)
    return squared_norms(values, walk(values, {id(p) for p in model.parameters() if p.requires_grad})).sqrt()


def losses(model, batch):
    out = model(batch[0]).flatten(1)
    weights = torch.linspace(-1, 1, out.shape[1], dtype=out.dtype)
    return (weights * out).sin().sum(1) + 0.1 * out.square().sum(1)


def squared(model, batch):
    """Losses whose gradients at the outputs have the signs of the outputs."""
    return model(batch[0]).flatten(1).square().sum(1)


def assert_exact(layer, inputs, dtype=torch.float64, losses=losses, lowest=-1):
    """Norms by the graph, by no other way, equal the reference's, whichever of the parameters are trainable."""
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, lowest, 1)
    model = Around(layer).to(dtype).eval()
    batch = (inputs.to(dtype) if inputs.is_floating_point() else inputs,)
    # Freezing one parameter does not change the gradients of the others: they are computed once.
    parameters = list(model.parameters())
    # The oracle is in float64: in float32 its own rounding would be compared.
    exact = tuple(part.double() if part.is_floating_point() else part for part in batch)
    gradients = reference.per_example_gradients(copy.deepcopy(model).double(), exact, losses)
    gradients = gradients.split([one.numel() for one in parameters], dim=1)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    for frozen in [None, *parameters] if len(parameters) > 1 else [None]:
        for parameter in parameters:
            parameter.requires_grad_(parameter is not frozen)
        trained = [rows for rows, one in zip(gradients, parameters, strict=True) if one.requires_grad]
        expected = sum(torch.linalg.vecdot(rows, rows) for rows in trained).sqrt()
        norms = by_graph(model, batch, losses)
        torch.testing.assert_close(norms.double(), expected, rtol=tolerance, atol=tolerance * 1e-2)


def assert_exact_in_float32(layer, inputs):
    """Where terms cancel, two float32 sums of them in different orders share few digits: all are positive here."""
    assert_exact(layer, inputs, torch.float32, losses=squared, lowest=0.5)


@given(
    size=batch_sizes, dtype=dtypes, shape=st.lists(st.integers(1, 6), max_size=2), bias=st.booleans(), data=st.data()
)
def test_linear(size, dtype, shape, bias, data):
    width, height = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    assert_exact(nn.Linear(width, height, bias=bias), torch.randn(size, *shape, width), dtype)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@given(size=batch_sizes, dtype=dtypes, dims=st.integers(1, 3), data=st.data())
def test_convolution(size, dtype, dims, data):
    draw = data.draw
    groups = draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 4)) for _ in range(dims)]
    dilation = [draw(st.integers(1, 2)) for _ in range(dims)]
    stride = [draw(st.integers(1, 3)) for _ in range(dims)]
    padding = draw(st.sampled_from(["same", "valid", 0, 1, 2]))
    if padding == "same":
        stride = [1] * dims
    extent = [draw(st.integers(1, 9 if dims < 3 else 5)) for _ in range(dims)]
    mode = draw(st.sampled_from(["zeros", "zeros", "circular", "replicate"]))
    added = 2 * padding if isinstance(padding, int) else 0
    for n, k, d in zip(extent, kernel, dilation, strict=True):
        assume(padding == "same" or n + added >= d * (k - 1) + 1)
        assume(mode != "circular" or (padding == "valid" or n >= max(added, d * (k - 1))))
    kind = [nn.Conv1d, nn.Conv2d, nn.Conv3d][dims - 1]
    layer = kind(
        groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3)), kernel, stride=stride, padding=padding,
        dilation=dilation, groups=groups, bias=draw(st.booleans()), padding_mode=mode,
    )  # fmt: skip
    inputs = torch.randn(size, layer.in_channels, *extent)
    if dtype == torch.float32:
        assert_exact_in_float32(layer, inputs.abs())
    else:
        assert_exact(layer, inputs)


@pytest.mark.parametrize("way", ["_by_groups", "_by_patches", "_by_grams"])
@given(
    size=st.integers(1, 4), channels=st.integers(1, 4), filters=st.integers(1, 4), kernel=st.integers(1, 4),
    stride=st.integers(1, 3), padding=st.integers(0, 3), dilation=st.integers(1, 3), extent=st.integers(1, 10),
    channels_last=st.booleans(),
)  # fmt: skip
def test_every_way_to_a_convolutions_norm(
    way, size, channels, filters, kernel, stride, padding, dilation, extent, channels_last
):
    """All ways agree on all shapes, whichever the cost model would choose."""
    assume(extent + 2 * padding >= dilation * (kernel - 1) + 1)
    inputs = torch.randn(size, channels, extent, extent + 1, dtype=torch.float64)
    layer = nn.Conv2d(channels, filters, kernel, stride, padding, dilation).double()
    gradient = torch.randn_like(layer(inputs))
    if channels_last:
        inputs, gradient = (t.contiguous(memory_format=torch.channels_last) for t in (inputs, gradient))
    geometry = squares.Geometry(tuple(layer.weight.shape), layer.stride, layer.padding, layer.dilation, layer.groups)
    expected = torch.stack([
        torch.autograd.grad(layer(inputs[i : i + 1]), layer.weight, gradient[i : i + 1])[0].square().sum()
        for i in range(size)
    ])  # fmt: skip
    torch.testing.assert_close(getattr(squares, way)(inputs, gradient, geometry), expected)
    torch.testing.assert_close(squares.convolution_squares(inputs, gradient, geometry), expected)


def test_the_cost_model_uses_every_way():
    def way(channels, filters, extent):
        geometry = squares.Geometry((filters, channels, 3, 3), (1, 1), (1, 1), (1, 1), 1)
        return squares._cheapest((channels, extent, extent), (filters, extent, extent), geometry)[0].__name__

    assert way(16, 16, 32) == "_by_groups"
    assert way(3, 16, 32) == "_by_patches"
    assert way(512, 512, 4) == "_by_grams"


@given(size=batch_sizes, dtype=dtypes, dims=st.integers(1, 3), data=st.data())
def test_transposed_convolution(size, dtype, dims, data):
    draw = data.draw
    groups, kernel, stride = draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    dilation, padding = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    output_padding = draw(st.integers(0, max(stride, dilation) - 1))
    extent = draw(st.integers(1, 6 if dims < 3 else 3))
    assume((extent - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1 > 0)
    kind = [nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d][dims - 1]
    layer = kind(
        2 * groups,
        3 * groups,
        kernel,
        stride,
        padding,
        output_padding,
        groups,
        bias=draw(st.booleans()),
        dilation=dilation,
    )
    inputs = torch.randn(size, 2 * groups, *[extent] * dims)
    if dtype == torch.float32:
        assert_exact_in_float32(layer, inputs.abs())
    else:
        assert_exact(layer, inputs)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolution_with_more_output_than_a_stride(dims, kernel, padding):
    kind = [nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d][dims - 1]
    layer = kind(4, 8, kernel, padding=padding, dilation=2, output_padding=1)
    assert_exact(layer, torch.randn(5, 4, *[7, 6, 4][:dims]))


@given(size=batch_sizes, dtype=dtypes, data=st.data())
def test_normalization(size, dtype, data):
    draw = data.draw
    channels, extent = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    kind = draw(st.sampled_from(["bn1", "bn1 flat", "bn2", "layer", "layer2", "group", "instance", "tracked", "rms"]))
    images = torch.randn(size, channels, extent, extent)
    if dtype == torch.float32:
        images = images.abs() + 4 * torch.arange(extent)  # no differences of nearly equal numbers
    layer, inputs = {
        "bn1": (nn.BatchNorm1d(channels), images[..., 0]),
        "bn1 flat": (nn.BatchNorm1d(channels), images[..., 0, 0]),
        "bn2": (nn.BatchNorm2d(channels), images),
        "layer": (nn.LayerNorm(extent, bias=draw(st.booleans())), images),
        "layer2": (nn.LayerNorm([extent, extent]), images),
        "group": (nn.GroupNorm(channels, 2 * channels), torch.cat([images, 2 * images], 1)),
        "instance": (nn.InstanceNorm2d(channels, affine=True), images),
        "tracked": (nn.InstanceNorm2d(channels, affine=True, track_running_stats=True), images),
        "rms": (nn.RMSNorm(extent), images),
    }[kind]
    for name, buffer in layer.named_buffers():
        if "running" in name:
            buffer.uniform_(0.5, 2)
        if name == "running_mean" and dtype == torch.float32:
            buffer.neg_()
    if dtype == torch.float32:
        assert_exact_in_float32(layer, inputs)
    else:
        assert_exact(layer, inputs)


@given(size=batch_sizes, dtype=dtypes, channels=st.integers(1, 4), is_single=st.booleans(), length=st.integers(0, 5))
def test_prelu(size, dtype, channels, is_single, length):
    shape = (size, channels, length) if length else (size, channels)
    assert_exact(nn.PReLU(1 if is_single else channels), torch.randn(shape), dtype)


@given(size=batch_sizes, dtype=dtypes, length=st.integers(0, 7), padding=st.sampled_from([None, 0, 3]))
def test_embedding(size, dtype, length, padding):
    shape = (size, length) if length else (size,)
    assert_exact(nn.Embedding(5, 3, padding_idx=padding), torch.randint(5, shape), dtype)


@given(size=batch_sizes, mode=st.sampled_from(["sum", "mean", "max"]), padding=st.sampled_from([None, 0, 3]))
@few
def test_embedding_bag(size, mode, padding):
    assert_exact(nn.EmbeddingBag(5, 3, mode=mode, padding_idx=padding), torch.randint(5, (size, 6)))


def bags(rows):
    """As one list of indices and where each bag begins; -1 stands for nothing."""
    is_there = rows >= 0
    return rows[is_there], is_there.sum(1).cumsum(0) - is_there.sum(1)


class Bags(nn.EmbeddingBag):
    def forward(self, rows):
        return super().forward(*bags(rows))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("size", [2, 5])
def test_bags_with_nothing_in_them(mode, size):
    rows = torch.tensor([[0, 0], [1, 2], [3, 0], [0, 1], [0, 0]])[:size]
    assert_exact(nn.EmbeddingBag(5, 3, mode=mode, padding_idx=0), rows)
    assert_exact(Bags(5, 3, mode=mode), rows - 1)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("size", [1, 3])
def test_sparse_gradients(size, mode):
    torch.manual_seed(0)
    indices = torch.randint(5, (size, 6))
    for sparse, dense in [
        (nn.Embedding(5, 3, sparse=True), nn.Embedding(5, 3)),
        (nn.EmbeddingBag(5, 3, mode=mode, sparse=True), nn.EmbeddingBag(5, 3, mode=mode)),
    ]:
        dense.load_state_dict(sparse.state_dict())
        assert_right(by_graph(Around(sparse), (indices,), losses), reference.gradient_norms(dense, (indices,), losses))


SLICES = {
    "before the front": (slice(-100, 3), slice(3, None)),
    "behind the end": (slice(0, 2), slice(2, 100)),
    "from behind": (slice(-100, -2), slice(-2, 2**63 - 1)),
    "nothing": (slice(0, None), slice(7, 9)),
}


@pytest.mark.parametrize("parts", SLICES.values(), ids=SLICES)
def test_slices_beyond_the_examples(parts):
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    model = Around(lambda x: torch.cat([layer(x)[part] for part in parts]))
    model.inner = layer
    batch = (torch.randn(5, 4),)
    assert_right(by_graph(model, batch, losses), alone_as_it_is(model, batch, losses))


def test_a_loss_that_is_a_parameter():
    model = nn.Module()
    model.p = nn.Parameter(torch.randn(1))
    assert go.gradient_norms(model, (torch.randn(1, 3),), lambda m, _: m.p).tolist() == [1]
    with go.observe_gradient_norms(model) as seen:
        seen.losses(model.p).mean().backward()
        assert seen.norms.tolist() == [1]


def test_losses_that_are_a_parameter_are_not_told_apart():
    parameter = nn.Parameter(torch.randn(3))
    with pytest.raises(UnprovenError, match="losses are a leaf"):
        walk(parameter, {id(parameter)})


class Attention(nn.Module):
    def __init__(self, *, crossed, masked, **settings):
        super().__init__()
        self.before = nn.Linear(4, 8) if crossed else nn.Identity()
        self.attention = nn.MultiheadAttention(8, 2, **settings)
        self.crossed, self.masked = crossed, masked

    def forward(self, x):
        x = x if self.attention.batch_first else x.transpose(0, 1)
        query = self.before(x[..., :4]) if self.crossed else x
        mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=x.dtype) if self.masked else None
        out, _ = self.attention(query, x, x, attn_mask=mask, need_weights=self.masked)
        return out if self.attention.batch_first else out.transpose(0, 1)


@pytest.mark.parametrize("crossed", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [1, 2, 17])
def test_attention(crossed, masked, batch_first, bias, size):
    layer = Attention(crossed=crossed, masked=masked, batch_first=batch_first, bias=bias)
    if crossed and not batch_first:  # a linear layer on (T, B, d) cannot be traced, so it gets no gradient here
        layer.before = nn.Identity()
        layer.crossed = False
    assert_exact(layer, torch.randn(size, 5, 8))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}], ids=str)
@pytest.mark.parametrize("size", [1, 2, 17])
def test_recurrent_layers(kind, settings, size):
    assert_exact(kind(3, 4, batch_first=True, **settings), torch.randn(size, 5, 3))


class Complex(nn.Module):
    """A linear layer, complex numbers in between, and a parameter among them."""

    def __init__(self, dtype):
        super().__init__()
        self.body, self.scale = nn.Linear(4, 4).double(), nn.Parameter(torch.randn(4, dtype=dtype))

    def forward(self, x):
        hidden = torch.complex(self.body(x), x.double())
        return torch.view_as_real(hidden * self.scale).flatten(1)


@pytest.mark.filterwarnings("ignore:the gradient norms of this:UserWarning")
def test_complex_numbers_between_real_parameters():
    model, batch = Complex(torch.float64), (torch.randn(5, 4, dtype=torch.float64),)
    assert_right(go.gradient_norms(model, batch, losses), alone_as_it_is(model, batch, losses), rtol=1e-10)


def test_complex_parameters_are_refused():
    model, batch = Complex(torch.complex128), (torch.randn(5, 4, dtype=torch.float64),)
    for norms in (go.gradient_norms, go.per_example_gradients):
        with pytest.raises(ValueError, match="real parameters"):
            norms(model, batch, losses)
    with pytest.raises(ValueError, match="real parameters"), go.observe_gradient_norms(model):
        pass


class Scaled(nn.Module):
    """A module of one's own with bare parameters and a layer inside."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.shift = nn.Parameter(torch.zeros(3))
        self.inner = nn.Linear(4, 3)

    def forward(self, x, *, power=2):
        return self.scale * self.inner(x) ** power + self.shift


@pytest.mark.parametrize("size", [1, 2, 17])
def test_a_module_with_bare_parameters(size):
    assert_exact(Scaled(), torch.randn(size, 6, 4))


def test_odd_embeddings_are_refused():
    batch = (torch.randint(5, (3, 4)),)
    with pytest.raises(ValueError, match="scale_grad_by_freq"):
        go.gradient_norms(Around(nn.Embedding(5, 3, scale_grad_by_freq=True)), batch, losses)


def test_nothing_is_infinite_or_negative_under_the_root():
    """Gram matrices may come out below zero by rounding."""
    layer = nn.Linear(50, 50)
    inputs = torch.ones(3, 2, 50) * torch.tensor([1.0, -1.0]).view(1, 2, 1)  # gradients that cancel
    norms = by_graph(Around(layer), (inputs,), lambda m, b: m(b[0]).sum((1, 2)) * 1e-3)
    assert torch.isfinite(norms).all()
    assert math.isclose(float(norms[0]), 1e-3 * math.sqrt(50) * 2, rel_tol=1e-4)

"""Models and losses made to mislead whoever looks for the gradient of one example in the pass of a batch.

Each takes vectors (B, 4) with classes 0, 1, 2 unless said otherwise and gives one loss per example. B may be the width
or the number of positions of what is inside.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune, rnn
from torch.utils.checkpoint import checkpoint

import gradorder as go

WIDTH = 4


@dataclass
class Adversary:
    model: nn.Module
    losses: Any = go.cross_entropy
    batch: Any = field(default=None)
    """Of any size: a function of it."""

    def __post_init__(self):
        self.batch = self.batch or vectors


def vectors(size):
    return torch.randn(size, WIDTH, dtype=torch.float64), torch.arange(size) % 3


def sequences(size, length=5):
    return torch.randn(size, length, WIDTH, dtype=torch.float64), torch.arange(size) % 3


def images(size):
    return torch.randn(size, 2, 6, 6, dtype=torch.float64), torch.arange(size) % 3


def words(size):
    return torch.randint(9, (size, 5)), torch.arange(size) % 3


class Hidden(nn.Module):
    """A linear layer, what the adversary does with its output, and a linear head."""

    def __init__(self, hidden, **parts):
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        for name, part in parts.items():
            setattr(self, name, part)
        self.hidden = hidden

    def forward(self, x):
        return self.head(self.hidden(self, x))


def parameter(*shape):
    return nn.Parameter(torch.randn(shape, dtype=torch.float64))


def of(hidden, /, losses=go.cross_entropy, batch=None, **parts):
    """Makes the adversary when it is called: each test has its own."""
    return lambda: Adversary(Hidden(hidden, **{k: make() for k, make in parts.items()}).double(), losses, batch)


def P(*shape):  # noqa: N802 - a parameter, to be made later
    return lambda: parameter(*shape)


def L(kind, *args, **options):  # noqa: N802 - a layer, to be made later
    return lambda: kind(*args, **options)


# Parameters used in unusual ways, and each example still has a gradient of its own ----------------------------------


def row_by_row(m, x):
    return torch.stack([m.body(row).tanh() for row in x])


def step_by_step(m, x):
    state = torch.zeros(len(x), WIDTH, dtype=x.dtype)
    for t in range(x.shape[1]):
        state = m.cell(x[:, t], state)
    return state


def written_into(m, x):
    h = m.body(x).clone()
    h[:, 0] = m.scalar
    h[:, 1] += m.scalar * h[:, 2].clone()
    h.mul_(m.vector)
    return h.tanh_()


def put_into(m, x):
    h = torch.zeros(len(x), 3, WIDTH, dtype=x.dtype)
    h[:, 0] = m.body(x)
    h[:, 1:] = m.table
    return h.tanh().sum(1)


def where(m, x):
    return torch.where(x > 0, m.body(x), m.vector)


def filled(m, x):
    return m.body(x).masked_fill(x > 0, 0.0) + m.vector.expand_as(x).masked_fill(x <= 0, 0.0)


def convolved_by_group(m, x):
    """Each example is a channel of one image."""
    h = x.reshape(1, len(x) * 2, 6, 6)
    weight = m.kernel.repeat(len(x), 1, 1, 1)
    return F.conv2d(h, weight, groups=len(x)).view(len(x), WIDTH, -1).tanh().mean(2)


def ragged(m, x):
    """Only some rows of each example, in one long list."""
    mask = x[:, :, 0] > 0
    mask[:, 0] = True
    rows = m.body(x[mask]).tanh()
    back = torch.zeros_like(x)
    back[mask] = rows
    return back.sum(1)


def summed_by_index(m, x):
    rows = m.body(x.flatten(0, 1)).tanh()
    owner = torch.arange(len(x)).repeat_interleave(x.shape[1])
    return torch.zeros(len(x), WIDTH, dtype=x.dtype).index_add(0, owner, rows)


def scattered(m, x):
    rows = m.body(x.flatten(0, 1)).tanh()
    owner = torch.arange(len(x)).repeat_interleave(x.shape[1])[:, None].expand_as(rows)
    return torch.zeros(len(x), WIDTH, dtype=x.dtype).scatter_add(0, owner, rows)


def attended(m, x):
    q, k, v = (part.unflatten(-1, (2, 2)).transpose(1, 2) for part in m.qkv(x).chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2).mean(1)


def learned_start(m, x):
    start = m.start.expand(1, len(x), WIDTH).contiguous()
    return m.gru(x, start)[1][0]


def own_weights(m, x):
    """A network that makes another one's weights for each example."""
    weights = m.maker(x).view(len(x), WIDTH, WIDTH)
    return torch.bmm(weights, x[:, :, None]).squeeze(2)


def penalised(m, x):
    """The gradient with respect to the input is part of the output."""
    x = x.detach().requires_grad_()
    h = m.body(x).tanh()
    (slope,) = torch.autograd.grad(h.square().sum(), x, create_graph=True)
    return h + slope


def reversed_gradient(m, x):
    h = m.body(x)
    if h.requires_grad:
        h.register_hook(lambda gradient: -2 * gradient)
    return h.tanh()


def checkpointed(m, x):
    return checkpoint(lambda h: m.body(h).tanh() * m.vector, m.body(x), use_reentrant=False)


def with_saved_tensors_elsewhere(m, x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        return m.body(x).tanh() * m.vector


def times_temperature(model, batch):
    return F.cross_entropy(model(batch[0]) * model.scalar.exp(), batch[1], reduction="none")


def with_weight_decay(model, batch):
    return go.cross_entropy(model, batch) + model.body.weight.square().sum()


def by_a_list(model, batch):
    logits = model(batch[0])
    return torch.stack([F.cross_entropy(row, y) for row, y in zip(logits, batch[1], strict=True)])


def by_a_diagonal(model, batch):
    outputs = model(batch[0])[:, :1]
    return (outputs - batch[1].double()).square().diagonal()


def by_a_product_with_itself(model, batch):
    logits = model(batch[0])
    return (logits @ logits.T).diagonal()


def minus_a_baseline(model, batch):
    losses = go.cross_entropy(model, batch)
    return losses - losses.mean().detach()


def twice(model, batch):
    return go.cross_entropy(model, batch) + model(2 * batch[0]).square().mean(1)


def with_the_body_alone(model, batch):
    return go.cross_entropy(model, batch) + model.body(batch[0]).square().mean(1)


def by_functional_call(model, batch):
    weights = {name: 2 * each for name, each in model.named_parameters()}
    return F.cross_entropy(torch.func.functional_call(model, weights, (batch[0],)), batch[1], reduction="none")


def without_a_sum(model, batch):
    return model(batch[0])[torch.arange(len(batch[1])), batch[1]]


def with_experts(m, x):
    """`out[rows] = expert(hidden[rows])`."""
    hidden = m.body(x)
    written = 0 * hidden
    for number, expert in enumerate(m.experts):
        rows = (torch.arange(len(x)) % 2 == number).nonzero()[:, 0]
        written[rows] = expert(hidden[rows])
    return written


def with_deep_weight(m, x):
    """Computed by more operations than Python's stack is deep."""
    weight = m.body.weight
    for _ in range(600):
        weight = weight * 1.0 + 0.0
    return x @ weight.T


def with_hooked_weight(m, x):
    weight = m.body.weight * 2
    if weight.requires_grad:
        weight.register_hook(lambda gradient: 3 * gradient)
    return x @ weight.T


def sharing_its_weight():
    layers = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
    layers[1].weight = layers[0].weight
    return nn.Sequential(*layers)


def sorted_inside(m, x):
    order = x[:, 0].argsort(descending=True)
    return m.body(x[order]).tanh()[order.argsort()]


def packed(m, x):
    lengths = 1 + (x[:, :, 0] > 0).sum(1).clamp(max=4)
    sequences = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return m.gru(sequences)[1][-1]


def pruned(layer):
    prune.l1_unstructured(layer, "weight", amount=0.3)
    return layer


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2


def doubled(layer):
    parametrize.register_parametrization(layer, "weight", Doubled())
    return layer


def changed(change):
    """A layer with a weight that is computed from others."""
    return of(lambda m, x: m.changed(x).tanh(), changed=lambda: change(nn.Linear(WIDTH, WIDTH)))


def own_function(forward, backward, name="Own"):
    """An operation of one's own, under any name; `backward` gets the gradient and all inputs."""

    def saved_forward(ctx, *inputs):
        ctx.save_for_backward(*inputs)
        return forward(*inputs)

    methods = {"forward": saved_forward, "backward": lambda ctx, g: backward(g, *ctx.saved_tensors)}
    return type(name, (torch.autograd.Function,), {key: staticmethod(each) for key, each in methods.items()}).apply


cube = own_function(lambda x: x**3, lambda g, x: 3 * x**2 * g)
scaled = own_function(lambda x, scale: x * scale, lambda g, x, scale: (g * scale, (g * x).sum(0)))


def half_of_the_weight(name):
    """By a function with the name of one of torch's, which sends half of the gradient."""
    own = own_function(lambda x: x * 1.0, lambda g, _: 0.5 * g, name)
    return of(lambda m, x: F.linear(x, own(m.body.weight), m.body.bias))


def frozen_parts(m, x):
    with torch.no_grad():
        h = m.other(x)
    return h + m.body(x)


def scripted(m, x):
    """A part in TorchScript, whose operations are hidden in one."""
    return m.script(m.body(x), m.vector)


def compiled(m, x):
    """A part whose backward pass is one operation that nobody can look into."""
    return m.compiled(m.body(x), m.vector)


def scaled_tanh(h, vector):
    return (h * vector).tanh() + vector


INDEPENDENT = {
    # products
    "einsum": of(lambda m, x: torch.einsum("oi,bi->bo", m.square, m.body(x).tanh()), square=P(4, 4)),
    "einsum, examples last": of(lambda m, x: torch.einsum("oi,ib->ob", m.square, m.body(x).T).T, square=P(4, 4)),
    "matrix from the left": of(lambda m, x: (m.square @ m.body(x).T).T, square=P(4, 4)),
    "matrix times columns": of(lambda m, x: (m.square @ m.body(x)[:, :, None]).squeeze(2), square=P(4, 4)),
    "matrix times vectors": of(lambda m, x: torch.stack([m.square.mv(row) for row in m.body(x)]), square=P(4, 4)),
    "expanded for bmm": of(
        lambda m, x: torch.bmm(m.square.expand(len(x), 4, 4), m.body(x)[:, :, None]).squeeze(2), square=P(4, 4)
    ),
    "repeated for bmm": of(
        lambda m, x: torch.bmm(m.square.repeat(len(x), 1, 1), m.body(x)[:, :, None]).squeeze(2), square=P(4, 4)
    ),
    "stacked for bmm": of(
        lambda m, x: torch.bmm(torch.stack([m.square] * len(x)), m.body(x)[:, :, None]).squeeze(2), square=P(4, 4)
    ),
    "addmm": of(lambda m, x: torch.addmm(m.vector, m.body(x), m.square, beta=0.5, alpha=2.0), square=P(4, 4),
                vector=P(4)),
    "addcmul": of(lambda m, x: torch.addcmul(m.vector, m.body(x), m.other, value=0.5), vector=P(4), other=P(4)),
    "tensordot": of(lambda m, x: torch.tensordot(m.body(x), m.cube, dims=1).tanh().sum(1), cube=P(4, 3, 4)),
    "bilinear": of(lambda m, x: m.two(x, m.body(x)), two=L(nn.Bilinear, 4, 4, 4)),
    "its own square": of(lambda m, x: m.body(x) @ (m.square @ m.square.T), square=P(4, 4)),
    "its own square and itself": of(lambda m, x: m.body(x) @ (m.square @ m.square.T) + x @ m.square, square=P(4, 4)),
    "low rank": of(lambda m, x: m.body(x) + x @ m.down @ m.up, down=P(4, 2), up=P(2, 4)),
    "weights made for each example": of(own_weights, maker=L(nn.Linear, 4, 16)),
    "weights made of weights": of(lambda m, x: F.linear(x, m.maker(m.square).softmax(0)), maker=L(nn.Linear, 4, 4),
                                  square=P(4, 4)),
    # broadcasting: a parameter may look like one row per example
    "as many entries as examples": of(lambda m, x: m.body(x) * m.vector + m.vector, vector=P(4)),
    "a scalar": of(lambda m, x: m.body(x) ** 2 * m.scalar + m.scalar, scalar=P()),
    "one row": of(lambda m, x: m.body(x) * m.row, row=P(1, 4)),
    "one column": of(lambda m, x: (m.body(x)[:, :, None] * m.column.T).sum(2), column=P(4, 1)),
    "a table as large as the batch": of(lambda m, x: (m.body(x)[:, None] * m.table).tanh().sum(1), table=P(4, 4)),
    "positions": of(lambda m, x: (m.body(x) + m.table).tanh().mean(1), batch=sequences, table=P(5, 4)),
    "positions, a slice of more": of(lambda m, x: (m.body(x) + m.table[: x.shape[1]]).tanh().mean(1),
                                     batch=sequences, table=P(9, 4)),
    "positions in front": of(lambda m, x: (m.body(x).transpose(0, 1) + m.table[:, None]).tanh().mean(0),
                             batch=sequences, table=P(5, 4)),
    "a token in front": of(lambda m, x: torch.cat([m.token.expand(len(x), 1, 4), m.body(x)], 1).tanh().mean(1),
                           batch=sequences, token=P(1, 1, 4)),
    "tokens in front, concatenated": of(
        lambda m, x: torch.cat([torch.cat([m.token] * len(x)), m.body(x)], 1).tanh().mean(1), batch=sequences,
        token=P(1, 1, 4)),
    "positions from a range": of(lambda m, x: (m.body(x) + m.places(torch.arange(5))).tanh().mean(1), batch=sequences,
                                 places=L(nn.Embedding, 9, 4)),
    # in place, views
    "written into": of(written_into, scalar=P(), vector=P(4)),
    "put into": of(put_into, table=P(2, 4)),
    "where": of(where, vector=P(4)),
    "filled": of(filled, vector=P(4)),
    "activation in place": of(lambda m, x: F.relu_(m.body(x)) * m.vector, vector=P(4)),
    "views of views": of(lambda m, x: m.body(x).view(-1, 2, 2).transpose(1, 2).flatten(1)[:, [3, 1, 0, 2]]),
    "strided": of(lambda m, x: m.body(x).as_strided((len(x), 4), (4, 1)) * m.vector, vector=P(4)),
    "split and joined": of(lambda m, x: torch.cat([m.body(part) for part in x.split(2)]).tanh()),
    "chunked and stacked": of(lambda m, x: torch.stack(m.body(x).unbind(0)).tanh() * m.vector, vector=P(4)),
    # indexing
    "looked up by index": of(lambda m, x: m.table[x].tanh().mean(1), batch=words, table=P(9, 4)),
    "looked up twice": of(lambda m, x: m.words(x).mean(1) * m.words(x.flip(1))[:, 0], batch=words,
                          words=L(nn.Embedding, 9, 4)),
    "padding in the table": of(lambda m, x: m.words(x).tanh().mean(1), batch=words,
                               words=L(nn.Embedding, 9, 4, padding_idx=3)),
    "looked up by gather": of(
        lambda m, x: m.table.gather(0, x[:, :1].expand(-1, 4)).tanh(), batch=words, table=P(9, 4)),
    "looked up by index_select": of(
        lambda m, x: m.table.index_select(0, x.flatten()).view(*x.shape, 4).tanh().mean(1), batch=words, table=P(9, 4)),
    "looked up one-hot": of(lambda m, x: (F.one_hot(x, 9).double() @ m.table).tanh().mean(1), batch=words,
                            table=P(9, 4)),
    "bags": of(lambda m, x: m.bag(x), batch=words, bag=L(nn.EmbeddingBag, 9, 4, mode="mean")),
    "bags of the largest": of(lambda m, x: m.bag(x), batch=words, bag=L(nn.EmbeddingBag, 9, 4, mode="max")),
    # rows that are not one per example inside
    "flattened to rows": of(lambda m, x: m.body(x.flatten(0, 1)).unflatten(0, x.shape[:2]).tanh().mean(1),
                            batch=sequences),
    "time first": of(lambda m, x: m.body(x.transpose(0, 1)).tanh().mean(0), batch=sequences),
    "time first, flattened": of(
        lambda m, x: m.body(x.transpose(0, 1).flatten(0, 1)).unflatten(0, (x.shape[1], -1)).tanh().mean(0),
        batch=sequences),
    "width first": of(lambda m, x: m.conv(m.body(x).transpose(1, 2)).mean(2), batch=sequences,
                      conv=L(nn.Conv1d, 4, 4, 3)),
    "ragged": of(ragged, batch=sequences),
    "summed by index": of(summed_by_index, batch=sequences),
    "scattered": of(scattered, batch=sequences),
    "row by row": of(row_by_row),
    "step by step": of(step_by_step, batch=sequences, cell=L(nn.GRUCell, 4, 4)),
    "step by step, simple cell": of(step_by_step, batch=sequences, cell=L(nn.RNNCell, 4, 4)),
    # layers
    "attention": of(attended, batch=sequences, qkv=L(nn.Linear, 4, 12)),
    "attention layer": of(lambda m, x: m.attention(x, m.body(x), x)[0].mean(1), batch=sequences,
                          attention=L(nn.MultiheadAttention, 4, 2, batch_first=True)),
    "attention layer, time first": of(lambda m, x: m.attention(*[x.transpose(0, 1)] * 3)[0].mean(0),
                                      batch=sequences, attention=L(nn.MultiheadAttention, 4, 2)),
    "learned start": of(learned_start, batch=sequences, start=P(4), gru=L(nn.GRU, 4, 4, batch_first=True)),
    "LSTM with projections": of(lambda m, x: m.lstm(x)[0].mean(1), batch=sequences,
                                lstm=L(nn.LSTM, 4, 6, proj_size=4, batch_first=True)),
    "norms of instances": of(lambda m, x: m.norm(m.conv(x)).tanh().mean((2, 3)), batch=images,
                             conv=L(nn.Conv2d, 2, 4, 3), norm=L(nn.InstanceNorm2d, 4, affine=True)),
    "norms of groups": of(lambda m, x: m.norm(m.conv(x)).tanh().mean((2, 3)), batch=images,
                          conv=L(nn.Conv2d, 2, 4, 3), norm=L(nn.GroupNorm, 2, 4)),
    "root mean square": of(lambda m, x: m.norm(m.body(x)), norm=L(nn.RMSNorm, 4)),
    "layer norm over two dimensions": of(lambda m, x: m.norm(m.body(x)).mean(1), batch=sequences,
                                         norm=L(nn.LayerNorm, (5, 4))),
    "frozen batch norm": of(lambda m, x: m.norm(m.body(x)), norm=L(nn.BatchNorm1d, 4)),
    "PReLU": of(lambda m, x: m.relu(m.body(x)), relu=L(nn.PReLU, 4)),
    "examples as groups": of(convolved_by_group, batch=images, kernel=P(4, 2, 3, 3)),
    "circular convolution": of(lambda m, x: m.conv(x).tanh().mean((2, 3)), batch=images,
                               conv=L(nn.Conv2d, 2, 4, 3, padding=1, padding_mode="circular", dilation=1)),
    "dilated, grouped convolution": of(lambda m, x: m.conv(x).tanh().mean((2, 3)), batch=images,
                                       conv=L(nn.Conv2d, 2, 4, 3, stride=2, dilation=2, groups=2, padding=2)),
    "transposed convolution": of(
        lambda m, x: m.conv(x).tanh().mean((2, 3)), batch=images,
        conv=L(nn.ConvTranspose2d, 2, 4, 3, stride=2, padding=1, output_padding=1)),
    "convolution used twice": of(lambda m, x: m.conv(m.conv(x).tanh()).flatten(1)[:, :4], batch=images,
                                 conv=L(nn.Conv2d, 2, 2, 3, padding=1)),
    "convolution in three dimensions": of(lambda m, x: m.conv(x[:, :, None]).tanh().mean((2, 3, 4)), batch=images,
                                          conv=L(nn.Conv3d, 2, 4, (1, 3, 3))),
    "packed sequences": of(packed, batch=sequences, gru=L(nn.GRU, 4, 4, batch_first=True)),
    "bags with offsets": of(lambda m, x: m.bag(x.flatten(), torch.arange(len(x)) * x.shape[1]), batch=words,
                            bag=L(nn.EmbeddingBag, 9, 4)),
    "rows sorted inside and put back": of(sorted_inside),
    # weights that are computed from others
    "weight norm": changed(parametrizations.weight_norm),
    "weight norm, by a hook": changed(nn.utils.weight_norm),
    "spectral norm": changed(parametrizations.spectral_norm),
    "spectral norm, by a hook": changed(nn.utils.spectral_norm),
    "orthogonal weight": changed(parametrizations.orthogonal),
    "pruned": changed(pruned),
    "a parametrization of one's own": changed(doubled),
    # functions of one's own
    "a function of activations": of(lambda m, x: cube(m.body(x))),
    "a function of a parameter": of(lambda m, x: scaled(m.body(x), m.vector), vector=P(4)),
    "a function of the examples together": of(lambda m, x: cube(m.body(x).T).T),
    "a function called Clone": half_of_the_weight("Clone"),
    "a function called View": half_of_the_weight("View"),
    "a function called _DDPSink": half_of_the_weight("_DDPSink"),
    # the same parameter in several places
    "layer called twice": of(lambda m, x: m.body(m.body(x).tanh())),
    "weight used by hand": of(lambda m, x: F.linear(m.body(x), m.body.weight)),
    "weight used transposed": of(lambda m, x: F.linear(m.body(x).tanh(), m.body.weight.T)),
    "bias used as weight": of(lambda m, x: m.body(x) * m.body.bias),
    "embedding and head": of(lambda m, x: (m.words(x) @ m.words.weight.T).softmax(-1).mean(1)[:, :4], batch=words,
                             words=L(nn.Embedding, 9, 4)),
    "two layers with one weight": of(lambda m, x: m.shared(x).tanh(), shared=sharing_its_weight),
    "attention called twice": of(lambda m, x: m.attention(x, *[m.attention(x, m.body(x), x)[0]] * 2)[0].mean(1),
                                 batch=sequences, attention=L(nn.MultiheadAttention, 4, 2, batch_first=True)),
    "tied to the head, many positions": of(
        lambda m, x: (m.words(x.repeat(1, 4)) @ m.words.weight.T).tanh().mean(1)[:, :4], batch=words,
        words=L(nn.Embedding, 9, 4)),
    "rows written by an index": of(with_experts, experts=lambda: nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])),
    "a deep graph of parameters": of(with_deep_weight),
    "a hook on a computed weight": of(with_hooked_weight),
    # parameters that get nothing
    "unused parameter": of(lambda m, x: m.body(x), unused=P(7)),
    "detached path": of(lambda m, x: m.other(x).detach() + m.body(x), other=L(nn.Linear, 4, 4)),
    "path without grad": of(frozen_parts, other=L(nn.Linear, 4, 4)),
    "multiplied by nothing": of(lambda m, x: m.body(x) + 0.0 * m.other(x), other=L(nn.Linear, 4, 4)),
    # gradients that are not what the forward pass says
    "hook on an activation": of(reversed_gradient),
    "gradient of the input": of(penalised),
    "checkpoint": of(checkpointed, vector=P(4)),
    "saved tensors elsewhere": of(with_saved_tensors_elsewhere, vector=P(4)),
    "traced": of(scripted, vector=P(4),
                 script=lambda: torch.jit.trace(scaled_tanh, (torch.randn(3, 4).double(), torch.randn(4).double()))),
    "compiled ahead of time": of(compiled, vector=P(4),
                                 compiled=lambda: torch.compile(scaled_tanh, backend="aot_eager", dynamic=False)),
    "gradient stopped for half": of(lambda m, x: torch.cat([m.body(x)[:, :2].detach(), m.body(x)[:, 2:]], 1)),
    "clamped": of(lambda m, x: m.body(x).clamp(m.low, m.low + 1), low=P(4)),
    "maximum with a parameter": of(lambda m, x: torch.maximum(m.body(x), m.vector), vector=P(4)),
    "power of a parameter": of(lambda m, x: m.body(x).abs() ** m.vector, vector=P(4)),
    "a rounded quotient": of(
        lambda m, x: m.body(x) + torch.div(m.body(x).detach(), m.vector, rounding_mode="floor"), vector=P(4)),
    "divided by a parameter": of(lambda m, x: m.body(x) / m.vector, vector=P(4)),
    "distances to parameters": of(lambda m, x: torch.cdist(m.body(x), m.table), table=P(4, 4)),
    "soft table": of(lambda m, x: (m.body(x) @ m.keys.T).softmax(1) @ m.keys, keys=P(4, 4)),
    "inverse of a parameter": of(lambda m, x: torch.linalg.solve(m.square, m.body(x).T).T, square=P(4, 4)),
    "grown by a product": of(lambda m, x: torch.kron(m.body(x), m.pair)[:, :4], pair=P(1, 2)),
    # losses
    "parameter in the loss": of(lambda m, x: m.body(x), losses=times_temperature, scalar=P()),
    "weight decay in each loss": of(lambda m, x: m.body(x), losses=with_weight_decay),
    "list of losses": of(lambda m, x: m.body(x), losses=by_a_list),
    "diagonal of all pairs": of(lambda m, x: m.body(x), losses=by_a_diagonal),
    "diagonal of a product": of(lambda m, x: m.body(x), losses=by_a_product_with_itself),
    "model called twice": of(lambda m, x: m.body(x).tanh(), losses=twice),
    "a part called again": of(lambda m, x: m.body(x).tanh(), losses=with_the_body_alone),
    "functional call": of(lambda m, x: m.body(x).tanh(), losses=by_functional_call),
    "an entry as the loss": of(lambda m, x: m.body(x).tanh(), losses=without_a_sum),
}  # fmt: skip


# Examples whose loss depends on the others of their batch -----------------------------------------------------------


def normalised(m, x):
    h = m.body(x)
    return (h - h.mean(0)) / (h.var(0, correction=0) + 0.1).sqrt()


def attending_to_all(m, x):
    h = m.body(x)
    return (h @ h.T).softmax(1) @ h


def with_hard_negatives(model, batch):
    h = F.normalize(model.body(batch[0]))
    similarity = h @ h.T - 2 * torch.eye(len(h))
    return go.cross_entropy(model, batch) + similarity.amax(1)


def weighted_by_all(model, batch):
    losses = go.cross_entropy(model, batch)
    return losses * losses.softmax(0)


mixing_round = own_function(lambda x: x.round(), lambda g, _: g / g.norm(), "Round")


def ranked(model, batch):
    return go.cross_entropy(model, batch).sort().values.cumsum(0)


def one_row_for_two(m, x):
    hidden, rows = m.body(x), torch.arange(len(x))
    written = 0 * hidden
    written[rows] = hidden[rows // 2]
    return written


MIXED = {
    "one row for two examples": of(one_row_for_two),
    "rolled through everything": of(lambda m, x: m.body(x).roll(3)),
    "minus the mean of sequences": of(lambda m, x: (m.body(x) - m.body(x).mean(0)).mean(1), batch=sequences),
    "minus the mean": of(lambda m, x: m.body(x) - m.body(x).mean(0)),
    "over the deviation": of(lambda m, x: m.body(x) / (1 + m.body(x).std(0, correction=0))),
    "batch norm": of(normalised),
    "cumulative sum": of(lambda m, x: m.body(x).cumsum(0)),
    "softmax over examples": of(lambda m, x: m.body(x).softmax(0)),
    "neighbour": of(lambda m, x: m.body(x) * m.body(x).roll(1, 0)),
    "neighbours by a convolution": of(lambda m, x: F.conv1d(m.body(x).T[:, None], m.kernel, padding=1)[:, 0].T,
                                      kernel=P(1, 1, 3)),
    "the largest": of(lambda m, x: m.body(x) + m.body(x).amax(0)),
    "sorted": of(lambda m, x: m.body(x).sort(0).values),
    "attention among examples": of(attending_to_all),
    "the first example": of(lambda m, x: m.body(x) + m.body(x)[:1]),
    "the last example": of(lambda m, x: m.body(x) * m.body(x)[-1]),
    "columns and rows exchanged": of(lambda m, x: m.body(x).T.reshape(x.shape)),
    "interleaved": of(lambda m, x: m.body(x).view(4, -1).T.reshape(x.shape)),
    "layer across examples": of(lambda m, x: m.body(m.body(x).mT.reshape(-1, 4)).reshape(x.shape)),
    "time and examples exchanged": of(lambda m, x: m.gru(m.body(x))[0].mean(1), batch=sequences,
                                      gru=L(nn.GRU, 4, 4)),
    "a function called Round that mixes": of(lambda m, x: mixing_round(3 * m.body(x))),
    "hard negatives": of(lambda m, x: m.body(x), losses=with_hard_negatives),
    "weighted by all losses": of(lambda m, x: m.body(x), losses=weighted_by_all),
    "sums of sorted losses": of(lambda m, x: m.body(x), losses=ranked),
}  # fmt: skip


# The numbers of one loss come from others, but each loss has its own gradient in the batch ---------------------------
# (In each of these, every loss differs from that of the example alone.)


def by_control_flow(m, x):
    return m.body(x) if x.sum() > x[0].sum() + 1e9 or len(x) == 1 else 2 * m.body(x)


def places(x):
    """For each row a number that it would not have alone."""
    return (len(x) + torch.arange(len(x), dtype=x.dtype))[:, None]


def by_a_number(m, x):
    return m.body(x) / (1 + x.abs().sum().item())


def by_the_size(model, batch):
    return go.cross_entropy(model, batch) / len(batch[1])


def by_all_tokens(model, batch):
    """The mean over the tokens of the batch, as many losses are written."""
    losses = F.cross_entropy(model(batch[0]), batch[1], reduction="none")
    return losses / (batch[1] != 0).sum().clamp(min=1)


def weighted_by_all_detached(model, batch):
    losses = go.cross_entropy(model, batch)
    return losses * losses.detach().softmax(0)


NUMBERS_FROM_OTHERS = {
    "the neighbour instead": of(lambda m, x: m.body(x)[torch.arange(len(x)).roll(1)]),
    "minus a baseline": of(lambda m, x: m.body(x), losses=minus_a_baseline),
    "minus the mean, detached": of(lambda m, x: m.body(x) - m.body(x).mean(0).detach()),
    "statistics without grad": of(lambda m, x: (m.body(x) - x.mean(0)) / (1 + x.std(0, correction=0))),
    "a number": of(by_a_number),
    "control flow": of(by_control_flow),
    "over the size of the batch": of(lambda m, x: m.body(x), losses=by_the_size),
    "over all tokens": of(lambda m, x: m.body(x), losses=by_all_tokens),
    "weighted, detached": of(lambda m, x: m.body(x), losses=weighted_by_all_detached),
    "a parameter for each place in the batch": of(
        lambda m, x: m.body(x) * m.table[len(x) - 1 : 2 * len(x) - 1], table=P(9, 4)
    ),
    "a number for each place in the batch": of(lambda m, x: m.body(x) * places(x)),
}

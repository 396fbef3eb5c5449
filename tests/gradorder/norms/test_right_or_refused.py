"""Losses, models and uses that once gave a wrong number without a word, or an error where there is a number."""

import threading

import pytest
import torch
import zoo
from right_or_refused import (
    CHECKPOINTS_ARE_OBSERVED,
    REFUSED,
    alone,
    alone_as_it_is,
    assert_right,
    assert_right_or_refused,
    in_batch,
    is_refusal,
    observed,
    outcome,
    outcome_or_too_early,
    scored,
)
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune, rnn
from torch.utils.checkpoint import checkpoint

import gradorder as go

# The library may say that it goes a slower way: here only the numbers count.
pytestmark = pytest.mark.filterwarnings("ignore")

METHODS = {"gradient_norms": scored, "observe": observed}
by_both_methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


class Model(nn.Module):
    """A model given by its forward function."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.forward_of = forward

    def forward(self, *inputs):
        return self.forward_of(self, *inputs)


def vectors(size=6, width=4):
    return torch.randn(size, width), torch.arange(size) % 3


def perceptron():
    """With an activation in the middle that no closed form knows."""
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def with_head(hidden, /, **parts):
    return Model(lambda m, x: m.head(hidden(m, x)), head=nn.Linear(4, 3), **parts)


def centred(x):
    """Minus the mean of the batch: the examples mix."""
    return x - x.mean(0)


# The first batch says nothing -------------------------------------------------------------------------------------


@by_both_methods
@pytest.mark.parametrize("name", ["bert", "albert", "roformer", "electra"])
def test_first_examples_without_a_masked_word(name, method):
    architecture = zoo.ARCHITECTURES[f"{name}, masked word"]
    model = architecture.build()
    silent = zoo.masked(4)
    silent["labels"][:] = zoo.IGNORED
    for batch in (silent, zoo.masked(5), zoo.masked(2)):
        norms, expected = method(model, batch, architecture.losses), alone(model, batch, architecture.losses)
        assert_right(norms, expected, rtol=1e-4)


@by_both_methods
def test_first_examples_of_padding(method):
    """The embedding of padding has no gradient, and a shared position has none before a word comes."""
    model = Model(lambda m, x: m.head((m.words(x) * m.places[: x.shape[1]]).sum(1)),
                  words=nn.Embedding(9, 4, padding_idx=0), places=nn.Parameter(torch.randn(7, 4)),
                  head=nn.Linear(4, 3, bias=False))  # fmt: skip
    for first_word in (0, 1):
        words = torch.randint(1, 9, (6, 5)) * first_word
        words[:2] = 0
        batch = (words, torch.arange(6) % 3)
        assert_right(method(model, batch), alone(model, batch))


@by_both_methods
def test_first_examples_that_are_equal(method):
    """Where all are equal, the difference to a neighbour is nothing."""
    model = with_head(lambda m, x: m.body(x) + (m.other(x) - m.other(x).roll(1, 0)),
                      body=nn.Linear(4, 4), other=nn.Linear(4, 4))  # fmt: skip
    x, y = vectors()
    for batch in ((x[:1].repeat(6, 1), y[:1].repeat(6)), (x, y)):
        assert_right_or_refused(method(model, batch), alone(model, batch))


MIXED_BODY = {
    "mixed": lambda m, x: centred(m.body(x)),
    "weight used again": lambda m, x: F.linear(m.body(x), m.body.weight),
    "scaled by a parameter": lambda m, x: m.body(x) * m.scale,
}


@by_both_methods
@pytest.mark.parametrize("body", MIXED_BODY.values(), ids=MIXED_BODY)
def test_a_head_that_is_zero_at_first(body, method):
    model = with_head(body, body=nn.Linear(4, 4), scale=nn.Parameter(torch.randn(4)))
    nn.init.zeros_(model.head.weight)
    batch = vectors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        assert_right_or_refused(method(model, batch), alone(model, batch))
        go.cross_entropy(model, batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@by_both_methods
@pytest.mark.parametrize("body", MIXED_BODY.values(), ids=MIXED_BODY)
def test_a_gate_that_opens_later(body, method):
    model = with_head(lambda m, x: x + m.gate * body(m, x), body=nn.Linear(4, 4),
                      scale=nn.Parameter(torch.randn(4)), gate=nn.Parameter(torch.zeros(())))  # fmt: skip
    batch = vectors()
    for gate in (0.0, 0.5):
        with torch.no_grad():
            model.gate.fill_(gate)
        assert_right_or_refused(method(model, batch), alone(model, batch))


# Modules without a row per example --------------------------------------------------------------------------------


class Table(nn.Module):
    """A table of learned vectors as a module."""

    def __init__(self, length, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length, 4))
        self.shape = shape

    def forward(self):
        return self.weight.view(self.shape)


@by_both_methods
@pytest.mark.parametrize("size", [1, 2, 5, 6])
@pytest.mark.parametrize("shape", [(5, 4), (1, 5, 4)], ids=str)
def test_a_table_as_a_module(shape, size, method):
    model = with_head(lambda m, x: (m.body(x) + m.table()).tanh().mean(1), body=nn.Linear(4, 4), table=Table(5, shape))
    batch = (torch.randn(size, 5, 4), torch.arange(size) % 3)
    assert_right(method(model, batch), alone(model, batch))


@by_both_methods
@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("shape", [(5,), (1, 5)], ids=str)
def test_positions_looked_up_once(shape, size, method):
    model = with_head(lambda m, x: (m.body(x) + m.places(torch.arange(5).view(shape))).tanh().mean(1),
                      body=nn.Linear(4, 4), places=nn.Embedding(9, 4))  # fmt: skip
    batch = (torch.randn(size, 5, 4), torch.arange(size) % 3)
    assert_right(method(model, batch), alone(model, batch))


# Nothing is remembered that may change ----------------------------------------------------------------------------


def mixed_by(strength):
    def losses(model, batch):
        logits = model(batch[0])
        if strength > 0:
            logits = logits - strength * logits.mean(0)
        return F.cross_entropy(logits, batch[1], reduction="none")

    return losses


class MixedBy:
    """The same as methods and as an object that is called."""

    def __init__(self, strength):
        self.strength = strength

    def losses(self, model, batch):
        return mixed_by(self.strength)(model, batch)

    __call__ = losses


STRENGTH = 0.0


def mixed_by_a_global(model, batch):
    return mixed_by(STRENGTH)(model, batch)


LOSSES_OF_A_STRENGTH = {
    "closure": mixed_by,
    "lambda": lambda strength: lambda model, batch: mixed_by(1.0 * strength)(model, batch),  # noqa: PLW0108
    "default": lambda strength: lambda model, batch, by=strength: mixed_by(by)(model, batch),
    "bound method": lambda strength: MixedBy(strength).losses,
    "object": MixedBy,
}


@by_both_methods
@pytest.mark.parametrize("losses_of", LOSSES_OF_A_STRENGTH.values(), ids=LOSSES_OF_A_STRENGTH)
def test_losses_that_share_their_code(losses_of, method):
    model, batch = perceptron(), vectors()
    assert_right(method(model, batch, losses_of(0.0)), alone(model, batch, losses_of(0.0)))
    assert_right_or_refused(method(model, batch, losses_of(1.0)), alone(model, batch, losses_of(1.0)))


@by_both_methods
def test_a_global_coefficient(method, monkeypatch):
    model, batch = perceptron(), vectors()
    for strength in (0.0, 1.0):
        monkeypatch.setitem(globals(), "STRENGTH", strength)
        assert_right_or_refused(method(model, batch, mixed_by_a_global), alone(model, batch, mixed_by_a_global))


@by_both_methods
def test_a_switch_of_the_model(method):
    model = with_head(lambda m, x: centred(m.body(x)) if m.use_mixing else m.body(x), body=nn.Linear(4, 4))
    batch = vectors()
    for model.use_mixing in (False, True, False):
        assert_right_or_refused(method(model, batch), alone(model, batch))


@by_both_methods
def test_a_replaced_forward(method):
    model, batch = perceptron(), vectors()
    assert_right(method(model, batch), alone(model, batch))
    model[0].forward = lambda x: centred(F.linear(x, model[0].weight))
    assert_right_or_refused(method(model, batch), alone(model, batch))


HOOKS = {
    "mixing": lambda module, args, output: centred(output),
    "scaling": lambda module, args, output: 3 * output,
    "weight used again": lambda module, args, output: output @ module.weight @ module.weight.T,
}


@by_both_methods
@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
def test_a_hook_added_later(hook, method):
    model, batch = perceptron(), vectors()
    assert_right(method(model, batch), alone(model, batch))
    model[0].register_forward_hook(hook)
    assert_right_or_refused(method(model, batch), alone(model, batch))


# Examples that mix or move ----------------------------------------------------------------------------------------


def test_images_among_captions_are_refused():
    architecture = zoo.ARCHITECTURES["clip, images among captions"]
    model, batch = architecture.build(), architecture.batch(4)
    for method in METHODS.values():
        assert method(model, batch, architecture.losses) is REFUSED
    bound = go.LastLayerBound(architecture.losses)
    assert outcome(lambda: bound(model, batch)) is REFUSED


def contrastive(model, batch):
    """Both directions, as CLIP is trained."""
    firsts, seconds = F.normalize(model.left(batch[0])), F.normalize(model.right(batch[1]))
    logits, targets = firsts @ seconds.T, torch.arange(len(firsts))
    return F.cross_entropy(logits, targets, reduction="none") + F.cross_entropy(logits.T, targets, reduction="none")


@by_both_methods
def test_a_contrastive_loss_is_refused(method):
    model = Model(None, left=nn.Linear(4, 3), right=nn.Linear(5, 3))
    assert method(model, (torch.randn(6, 4), torch.randn(6, 5)), contrastive) is REFUSED


def sorted_by_length(m, x):
    """Sorted inside, as for packing, and put back."""
    order = x[:, 0].argsort(descending=True)
    return m.body(x[order]).tanh()[order.argsort()]


@by_both_methods
def test_rows_sorted_inside_and_put_back(method):
    model, batch = with_head(sorted_by_length, body=nn.Linear(4, 4)), vectors()
    assert_right_or_refused(method(model, batch), alone(model, batch))


@by_both_methods
def test_rows_left_in_another_order(method):
    """The caller sorts the targets with them, so that the losses come in another order than the batch."""
    model = perceptron()

    def losses(model, batch):
        order = batch[0][:, 0].argsort()
        return F.cross_entropy(model(batch[0][order]), batch[1][order], reduction="none")

    batch = vectors()
    assert_right(method(model, batch, losses), in_batch(model, batch, losses))


def step_with(model, batch, extra):
    """A training step with a further term in the same backward pass."""

    def step():
        with go.observe_gradient_norms(model) as seen:
            logits = model(batch[0])
            losses = seen.losses(F.cross_entropy(logits, batch[1], reduction="none"))
            (losses.mean() + extra(model, logits)).backward()
            return seen.norms

    return outcome(step)


EXTRA_TERMS = {
    "z-loss": lambda model, logits: logits.logsumexp(1).square().mean(),
    "z-loss of one example": lambda model, logits: logits[0].logsumexp(0).square(),
    "balance of experts": lambda model, logits: logits.softmax(1).mean(0).square().sum(),
    "weight decay": lambda model, logits: model[0].weight.square().sum(),
    "loss of a second batch": lambda model, logits: model(torch.randn(3, 4)).square().mean(),
}


@pytest.mark.parametrize("extra", EXTRA_TERMS.values(), ids=EXTRA_TERMS)
def test_other_terms_of_the_same_backward_pass_do_not_count(extra):
    model, batch = perceptron(), vectors()
    expected = alone(model, batch)
    for _ in range(2):
        assert_right_or_refused(step_with(model, batch, extra), expected)


def test_an_auxiliary_loss_of_experts():
    architecture = zoo.ARCHITECTURES["mixtral, next word"]
    model, batch = architecture.build(), architecture.batch(4)
    expected = alone(model, batch, architecture.losses)

    def step():
        with go.observe_gradient_norms(model) as seen:
            found = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"],
                          output_router_logits=True, labels=batch["labels"])  # fmt: skip
            losses = zoo.mean_over_targets(found.logits[:, :-1], batch["labels"][:, 1:])
            (seen.losses(losses).mean() + found.aux_loss).backward()
            return seen.norms

    assert_right_or_refused(outcome(step), expected, rtol=1e-4)


# When norms are asked for -----------------------------------------------------------------------------------------


def test_norms_inside_a_backward_hook():
    """The optimizer steps as each gradient arrives, and norms are asked for there."""
    model, batch = perceptron(), vectors()
    expected, found = alone(model, batch), []
    with go.observe_gradient_norms(model) as seen:
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(
                lambda _: found.append(outcome_or_too_early(lambda: seen.norms))
            )
        seen.losses(go.cross_entropy(model, batch)).mean().backward()
        after = seen.norms
    assert len(found) == 4
    for norms in found:
        assert_right_or_refused(norms, expected)
    assert_right(after, expected)


def test_the_context_inside_a_backward_hook():
    model, batch, found = perceptron(), vectors(), []
    probe = torch.ones((), requires_grad=True)
    probe.register_hook(lambda _: found.append(observed(model, batch)))
    (2 * probe).backward()
    assert_right_or_refused(found[0], alone(model, batch))


def test_the_forward_pass_before_the_context():
    model, batch = perceptron(), vectors()
    losses = go.cross_entropy(model, batch)

    def step():
        with go.observe_gradient_norms(model) as seen:
            seen.losses(losses).mean().backward()
            return seen.norms

    assert_right_or_refused(outcome(step), alone(model, batch))


def test_the_backward_pass_after_the_context():
    model, batch = perceptron(), vectors()
    with go.observe_gradient_norms(model) as seen:
        loss = seen.losses(go.cross_entropy(model, batch)).mean()
    loss.backward()
    assert_right_or_refused(outcome_or_too_early(lambda: seen.norms), alone(model, batch))


def test_no_hook_is_left_on_anything():
    model, batch = perceptron(), vectors()
    kept = []
    for _ in range(2):
        with go.observe_gradient_norms(model) as seen:
            loss = seen.losses(go.cross_entropy(model, batch)).mean()
            kept.append(loss)
            loss.backward()
            _ = seen.norms
    with go.observe_gradient_norms(model) as seen:
        seen.losses(go.cross_entropy(model, batch))  # and no backward pass
    for parameter in model.parameters():
        assert not parameter._backward_hooks
        assert not getattr(parameter, "_post_accumulate_grad_hooks", None)
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert not module._backward_hooks
        assert not module._full_backward_hooks if hasattr(module, "_full_backward_hooks") else True


def test_two_contexts_at_once_leave_nothing_behind():
    before = F.linear, F.conv2d, F.embedding, torch.Tensor.__add__
    models, batch = [perceptron(), perceptron()], vectors()
    first, second = (go.observe_gradient_norms(model) for model in models)
    seen = first.__enter__(), second.__enter__()
    for each, model in zip(seen, models, strict=True):
        each.losses(go.cross_entropy(model, batch)).mean().backward()
    norms = [each.norms for each in seen]
    first.__exit__(None, None, None)  # not in the order of a stack
    second.__exit__(None, None, None)
    assert before == (F.linear, F.conv2d, F.embedding, torch.Tensor.__add__)
    for each, model in zip(norms, models, strict=True):
        assert_right(each, alone(model, batch))


def test_two_contexts_for_one_model():
    model, batch = perceptron(), vectors()
    with go.observe_gradient_norms(model) as outer, go.observe_gradient_norms(model) as inner:
        outer.losses(inner.losses(go.cross_entropy(model, batch))).mean().backward()
        norms = [outcome(lambda: outer.norms), outcome(lambda: inner.norms)]
    for each in norms:
        assert_right_or_refused(each, alone(model, batch))


def test_two_threads_at_once():
    models, batch, found = [perceptron(), perceptron()], vectors(), {}
    expected = [alone(model, batch) for model in models]
    together = threading.Barrier(2)

    def train(number):
        with go.observe_gradient_norms(models[number]) as seen:
            for _ in range(5):
                together.wait()
                seen.losses(go.cross_entropy(models[number], batch)).mean().backward()
                found.setdefault(number, []).append(seen.norms)

    threads = [threading.Thread(target=train, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        for norms in found[number]:
            assert_right(norms, expected[number])


# The last layer ---------------------------------------------------------------------------------------------------


def bound(model, batch, losses=None):
    return outcome(lambda: go.LastLayerBound(losses)(model, batch))


@pytest.mark.parametrize("length", [3, 6])
def test_the_last_layer_of_a_model_with_time_first(length):
    """Where there are as many steps as examples, nothing in the shapes says which is which."""
    model = Model(lambda m, x: m.head(m.body(x.transpose(0, 1)).tanh()).mean(0),
                  body=nn.Linear(4, 4), head=nn.Linear(4, 3))  # fmt: skip
    batch = (torch.randn(6, length, 4), torch.arange(6) % 3)
    norms = bound(model, batch)
    model.body.requires_grad_(False)  # what is left is the last layer's own
    assert_right_or_refused(norms, alone(model, batch))


def test_the_bound_with_a_frozen_head_is_a_bound():
    model, batch = perceptron(), vectors()
    for frozen in (model[2].weight, model[2].bias):
        frozen.requires_grad_(False)
        norms = bound(model, batch)
        assert norms is REFUSED or bool((norms <= alone(model, batch) * (1 + 1e-5)).all())


def test_the_bound_after_an_activation_in_place():
    model, batch = (
        nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 3), nn.ReLU(inplace=True)),
        vectors(),
    )
    norms = bound(model, batch)
    model[0].requires_grad_(False)
    assert_right(norms, alone(model, batch))


def test_the_bound_of_rows_that_mix_is_refused():
    model = with_head(lambda m, x: m.body(x), body=nn.Linear(4, 4))
    assert bound(model, vectors(), mixed_by(1.0)) is REFUSED


# Precision --------------------------------------------------------------------------------------------------------


def with_autocast_inside(model, batch):
    with torch.autocast("cpu", torch.bfloat16):
        return go.cross_entropy(model, batch).float()


PRECISIONS = {
    "linear": lambda: (nn.Linear(4, 3), vectors()),
    "perceptron": lambda: (perceptron(), vectors()),
    "chain": lambda: (nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), vectors()),
    "conv net": lambda: (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
        (torch.randn(6, 1, 6, 6), torch.arange(6) % 3),
    ),
}


@by_both_methods
@pytest.mark.parametrize("make", PRECISIONS.values(), ids=PRECISIONS)
def test_autocast_around_the_loss(make, method):
    model, batch = make()
    with torch.autocast("cpu", torch.bfloat16):
        norms, expected = method(model, batch), alone_as_it_is(model, batch)
    assert norms.dtype == torch.float32
    assert_right(norms, expected, rtol=0.02)


@by_both_methods
@pytest.mark.parametrize("make", PRECISIONS.values(), ids=PRECISIONS)
def test_autocast_inside_the_loss(make, method):
    model, batch = make()
    norms = method(model, batch, with_autocast_inside)
    assert_right(norms, alone_as_it_is(model, batch, with_autocast_inside), rtol=0.02)


@by_both_methods
@pytest.mark.parametrize(
    "name", ["gpt2, next word", "convnext, class of an image", "bert, masked word", "llama, next word"]
)
def test_autocast_inside_the_loss_of_a_large_model(name, method):
    architecture = zoo.ARCHITECTURES[name]
    model, batch = architecture.build(), architecture.batch(3)

    def losses(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            return architecture.losses(model, batch).float()

    assert_right(method(model, batch, losses), alone_as_it_is(model, batch, losses), rtol=0.05)


def test_keeping_the_hardest_under_autocast():
    model, batch = perceptron(), vectors()
    with torch.autocast("cpu", torch.bfloat16):
        kept, _ = go.KeepHardest(0.5)(model, batch)
    assert len(kept) == 3


@by_both_methods
@pytest.mark.parametrize("make", PRECISIONS.values(), ids=PRECISIONS)
def test_a_model_in_bfloat16(make, method):
    model, (x, y) = make()
    model, batch = model.bfloat16(), (x.bfloat16(), y)
    norms = method(model, batch)
    assert norms.dtype == torch.float32
    assert_right(norms, alone_as_it_is(model, batch), rtol=0.02)


# Models that are more than their layers ---------------------------------------------------------------------------


@by_both_methods
def test_a_compiled_model(method):
    model, batch = perceptron(), vectors()
    compiled = torch.compile(model, backend="eager")
    assert_right(method(compiled, batch), alone(model, batch))
    model.compile(backend="eager")
    assert_right(method(model, batch), alone(model, batch))


def test_the_bound_of_a_compiled_model():
    model, batch = perceptron(), vectors()
    assert_right(bound(torch.compile(model, backend="eager"), batch), bound(model, batch))


def pruned(layer):
    prune.l1_unstructured(layer, "weight", amount=0.3)
    return layer


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2


def doubled(layer):
    parametrize.register_parametrization(layer, "weight", Doubled())
    return layer


REPARAMETRIZED = {
    "weight_norm": nn.utils.weight_norm,
    "spectral_norm": nn.utils.spectral_norm,
    "prune": pruned,
    "parametrizations.weight_norm": parametrizations.weight_norm,
    "parametrizations.spectral_norm": parametrizations.spectral_norm,
    "parametrizations.orthogonal": parametrizations.orthogonal,
    "a parametrization of one's own": doubled,
}


@by_both_methods
@pytest.mark.parametrize("change", REPARAMETRIZED.values(), ids=REPARAMETRIZED)
def test_weights_computed_from_others(change, method):
    model, batch = with_head(lambda m, x: m.body(x).tanh(), body=change(nn.Linear(4, 4))).eval(), vectors()
    norms = method(model, batch)
    (assert_right if method is scored else assert_right_or_refused)(norms, alone(model, batch))


def packed(m, x):
    lengths = 1 + (x[:, :, 0] > 0).sum(1).clamp(max=4)
    sequences = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return m.body(sequences)[1][-1]


@by_both_methods
def test_packed_sequences(method):
    model = with_head(packed, body=nn.GRU(2, 4, batch_first=True))
    batch = (torch.randn(6, 5, 2), torch.arange(6) % 3)
    norms = method(model, batch)
    (assert_right if method is scored else assert_right_or_refused)(norms, alone(model, batch))


@by_both_methods
def test_bags_with_offsets(method):
    model = with_head(lambda m, x: m.bag(x.flatten(), torch.arange(len(x)) * x.shape[1]),
                      bag=nn.EmbeddingBag(9, 4))  # fmt: skip
    batch = (torch.randint(9, (6, 5)), torch.arange(6) % 3)
    norms = method(model, batch)
    (assert_right if method is scored else assert_right_or_refused)(norms, alone(model, batch))


class Cube(torch.autograd.Function):
    """Without a rule for torch.func."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


class Scaled(torch.autograd.Function):
    """Takes a parameter and says its whole gradient itself."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        return gradient * scale, (gradient * x).sum(0)


OWN_FUNCTIONS = {
    "of activations": lambda m, x: Cube.apply(m.body(x)),
    "of a parameter": lambda m, x: Scaled.apply(m.body(x), m.scale),
    "of the examples together": lambda m, x: Cube.apply(m.body(x).T).T,
}


@by_both_methods
@pytest.mark.parametrize("body", OWN_FUNCTIONS.values(), ids=OWN_FUNCTIONS)
def test_functions_of_ones_own(body, method):
    model, batch = with_head(body, body=nn.Linear(4, 4), scale=nn.Parameter(torch.randn(4))), vectors()
    norms = method(model, batch)
    (assert_right if method is scored else assert_right_or_refused)(norms, alone(model, batch))


@by_both_methods
def test_features_of_another_network(method):
    """Its examples may mix: it has made the batch, and is not asked about."""
    encoder = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    model, (x, y) = perceptron(), vectors()
    features = encoder(x)
    expected = alone(model, (features.detach(), y))
    assert_right(outcome(lambda: go.gradient_norms(model, (features, y))), expected)
    assert_right(method(model, (features, y)), expected)


@by_both_methods
def test_features_of_the_model_itself(method):
    """They are what they were made of, too, and the oracle says the same."""
    model = Model(lambda m, x: m.head(x.tanh()), body=nn.Linear(4, 4), head=nn.Linear(4, 3))
    x, y = vectors()
    expected = torch.cat([alone_as_it_is(model, (model.body(x[[i]]), y[[i]])) for i in range(len(x))])
    assert_right(method(model, (model.body(x), y)), expected)
    assert observed(model, (centred(model.body(x)), y)) is REFUSED


def test_parameters_hidden_behind_the_features():
    """A checkpoint of the old kind does not show them."""
    model = Model(lambda m, x: m.head(x), body=nn.Linear(4, 4), head=nn.Linear(4, 3))
    x, y = vectors()
    features = checkpoint(model.body, x.requires_grad_(), use_reentrant=True)
    assert observed(model, (features, y)) is REFUSED


def halving(name):
    """A function of one's own under some name, which sends half of what it gets."""
    methods = {"forward": lambda ctx, x: x * 1.0, "backward": lambda ctx, gradient: gradient * 0.5}
    return type(name, (torch.autograd.Function,), {key: staticmethod(method) for key, method in methods.items()})


@by_both_methods
@pytest.mark.parametrize("name", ["Clone", "View", "T", "Expand", "_DDPSink", "RegisterPostBackwardFunction"])
def test_functions_of_ones_own_named_as_those_of_torch(name, method):
    own = halving(name).apply
    model = with_head(lambda m, x: F.linear(x, own(m.body.weight), m.body.bias), body=nn.Linear(4, 4))
    batch = vectors()
    norms = method(model, batch)
    (assert_right if method is scored else assert_right_or_refused)(norms, alone(model, batch))


@by_both_methods
def test_a_function_of_ones_own_that_mixes_examples_under_a_name_of_torch(method):
    own = type("Round", (torch.autograd.Function,), {
        "forward": staticmethod(lambda ctx, x: x.round()), "backward": staticmethod(lambda ctx, g: g / g.norm())
    }).apply  # fmt: skip
    model, batch = with_head(lambda m, x: own(3 * m.body(x)), body=nn.Linear(4, 4)), vectors()
    assert method(model, batch) is REFUSED


@by_both_methods
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointed_activations(use_reentrant, method):
    model = Model(lambda m, x: m.head(checkpoint(m.body, m.first(x), use_reentrant=use_reentrant)),
                  first=nn.Linear(4, 4), body=nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)),
                  head=nn.Linear(4, 3))  # fmt: skip
    batch = vectors()
    expected = expected_of_checkpoints(model, batch)
    if use_reentrant:  # torch itself says what to do, where nobody did before
        try:
            assert_right_or_refused(method(model, batch), expected)
        except RuntimeError as error:
            assert "use_reentrant=False" in str(error)  # noqa: PT017 - a number would do as well
    elif method is observed and not CHECKPOINTS_ARE_OBSERVED:
        assert method(model, batch) is REFUSED
    else:
        assert_right(method(model, batch), expected)


def expected_of_checkpoints(model, batch):
    """torch.autograd.grad cannot pass a checkpoint of the old kind: backward() can."""
    norms = []
    for i in range(len(batch[1])):
        model.zero_grad()
        go.cross_entropy(model, (batch[0][i : i + 1], batch[1][i : i + 1])).sum().backward()
        norms.append(torch.cat([p.grad.flatten() for p in model.parameters()]).norm())
    model.zero_grad()
    return torch.stack(norms)


class Wrapper(nn.Module):
    """As DataParallel without devices: splits the batch and joins what comes."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return torch.cat([self.module(part) for part in x.chunk(2)])


@by_both_methods
def test_wrapped_models(method):
    batch, whole = vectors(), nn.DataParallel(perceptron())
    assert_right(method(whole, batch), alone(whole, batch))
    for split in (Wrapper(perceptron()), nn.Sequential(Wrapper(perceptron()))):
        norms = method(split, batch)
        (assert_right if method is scored else assert_right_or_refused)(norms, alone(split, batch))


# Batches and targets ----------------------------------------------------------------------------------------------


@by_both_methods
def test_targets_of_another_type(method):
    x = torch.randn(6, 4)
    regression = nn.Linear(4, 1)
    batch = (x, torch.randn(6, dtype=torch.float64))
    norms = outcome(lambda: method(regression, batch, go.squared_error))
    assert_right_or_refused(norms, alone_as_it_is(regression, batch, go.squared_error))
    batch = (x, (torch.arange(6) % 3).to(torch.uint8))
    expected = alone(perceptron_of(0), (x, batch[1].long()))
    assert_right_or_refused(outcome(lambda: method(perceptron_of(0), batch)), expected)


def perceptron_of(seed):
    torch.manual_seed(seed)
    return perceptron()


@by_both_methods
def test_targets_as_probabilities(method):
    batch = (torch.randn(6, 4), torch.randn(6, 3).softmax(1))
    for model in (perceptron(), nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))):
        assert_right(method(model, batch), alone(model, batch))


def test_inference_mode():
    model, batch = perceptron(), vectors()
    expected = alone(model, batch)
    with torch.inference_mode():
        norms = scored(model, batch)
        made_inside = tuple(part.clone() for part in batch)
        assert_right(scored(model, made_inside), expected)
        assert outcome(lambda: observed(model, batch)) is REFUSED
    assert_right(norms, expected)
    assert_right(scored(model, made_inside), expected)


class Unhashable:
    __hash__ = None

    def __eq__(self, other):
        return True

    def __call__(self, model, batch):
        return go.cross_entropy(model, batch)


@by_both_methods
def test_an_unhashable_loss(method):
    model, batch = perceptron(), vectors()
    assert_right(method(model, batch, Unhashable()), alone(model, batch))


@by_both_methods
def test_an_empty_batch(method):
    for model in (nn.Linear(4, 3), perceptron()):
        norms = method(model, (torch.randn(0, 4), torch.arange(0)))
        assert norms is REFUSED or norms.shape == (0,)


@by_both_methods
def test_a_batch_that_is_not_finite_spoils_nothing(method):
    model, (x, y) = perceptron(), vectors()
    poisoned = x.clone()
    poisoned[1] = torch.nan
    norms = method(model, (poisoned, y))
    if norms is not REFUSED:
        assert norms[1].isnan()
        others = torch.tensor([0, 2, 3, 4, 5])
        assert_right(norms[others], alone(model, (x, y))[others])
    assert_right(method(model, (x, y)), alone(model, (x, y)))


@by_both_methods
def test_running_out_of_memory_is_passed_on(method):
    """It is no reason to try another way, which would take more."""
    calls = []

    def losses(model, batch):
        calls.append(1)
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError, match="no room"):
        method(perceptron(), vectors(), losses)
    assert len(calls) == 1


@by_both_methods
def test_an_error_of_the_users_own_is_passed_on(method):
    def losses(model, batch):
        raise KeyError("labels")

    with pytest.raises(KeyError, match="labels"):
        method(perceptron(), vectors(), losses)


def test_a_refusal_is_told_from_an_error_of_torch():
    with pytest.raises(ValueError, match="at least one parameter") as ours:
        go.gradient_norms(nn.ReLU(), vectors())
    assert is_refusal(ours.value)
    with pytest.raises(RuntimeError) as theirs:
        nn.Linear(4, 3)(torch.randn(2, 5))
    assert not is_refusal(theirs.value)

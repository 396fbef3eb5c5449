"""Losses, models and uses for which a norm is right, or refused."""

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


def centred(x):
    """Minus the mean of the batch: the examples mix."""
    return x - x.mean(0)


# Nothing is remembered from one batch to the next -----------------------------------------------------------------


def hook_that_mixes(model):
    model[0].register_forward_hook(lambda module, args, output: centred(output))


def forward_that_mixes(model):
    model[0].forward = lambda x: centred(F.linear(x, model[0].weight))


def layer_that_mixes(model):
    model[1] = Model(lambda m, x: centred(x))


@by_both_methods
@pytest.mark.parametrize("change", [hook_that_mixes, forward_that_mixes, layer_that_mixes])
def test_a_model_that_mixes_examples_from_the_second_batch_on(change, method):
    model, batch = perceptron(), vectors()
    assert_right(method(model, batch), alone(model, batch))
    change(model)
    assert method(model, batch) is REFUSED


@by_both_methods
@pytest.mark.parametrize("body", [centred, torch.tanh], ids=["mixed", "apart"])
def test_a_gate_that_opens_later(body, method):
    """While it is closed, the gradients of the gated part are zero."""
    model = Model(lambda m, x: m.head(x + m.gate * body(m.body(x))), body=nn.Linear(4, 4), head=nn.Linear(4, 3),
                  gate=nn.Parameter(torch.zeros(())))  # fmt: skip
    batch = vectors()
    for gate in (0.0, 0.5):
        with torch.no_grad():
            model.gate.fill_(gate)
        norms = method(model, batch)
        (assert_right_or_refused if body is centred else assert_right)(norms, in_batch(model, batch))


# Order of rows ----------------------------------------------------------------------------------------------------


@by_both_methods
def test_rows_left_in_another_order(method):
    """The caller sorts the targets with them, so that the losses come in another order than the batch."""
    model = perceptron()

    def losses(model, batch):
        order = batch[0][:, 0].argsort()
        return F.cross_entropy(model(batch[0][order]), batch[1][order], reduction="none")

    batch = vectors()
    assert_right(method(model, batch, losses), in_batch(model, batch, losses))


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


def test_the_forward_pass_before_the_context_and_the_backward_pass_after_it():
    model, batch = perceptron(), vectors()
    losses = go.cross_entropy(model, batch)
    with go.observe_gradient_norms(model) as seen:
        loss = seen.losses(losses).mean()
    loss.backward()
    assert_right_or_refused(outcome_or_too_early(lambda: seen.norms), alone(model, batch))


def test_no_hook_is_left_on_anything():
    model, batch = perceptron(), vectors()
    for goes_back in (True, False):
        with go.observe_gradient_norms(model) as seen:
            loss = seen.losses(go.cross_entropy(model, batch)).mean()
            if goes_back:
                loss.backward()
    for parameter in model.parameters():
        assert not parameter._backward_hooks
        assert not parameter._post_accumulate_grad_hooks
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert not module._backward_hooks


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
        assert len(found[number]) == 5
        for norms in found[number]:
            assert_right(norms, expected[number])


# The last layer ---------------------------------------------------------------------------------------------------


def bound(model, batch):
    return outcome(lambda: go.LastLayerBound()(model, batch))


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
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 3), nn.ReLU(inplace=True))
    batch = vectors()
    norms = bound(model, batch)
    model[0].requires_grad_(False)
    assert_right(norms, alone(model, batch))


# Precision --------------------------------------------------------------------------------------------------------


def with_autocast_inside(model, batch):
    with torch.autocast("cpu", torch.bfloat16):
        return go.cross_entropy(model, batch).float()


PRECISIONS = {
    "perceptron": lambda: (perceptron(), vectors()),
    "chain": lambda: (nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), vectors()),
    "conv net": lambda: (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
        (torch.randn(6, 1, 6, 6), torch.arange(6) % 3),
    ),
}


@by_both_methods
@pytest.mark.parametrize("way", ["autocast around the loss", "autocast inside the loss", "bfloat16"])
@pytest.mark.parametrize("make", PRECISIONS.values(), ids=PRECISIONS)
def test_half_precision(make, way, method):
    model, (x, y) = make()
    if way == "bfloat16":
        model, x = model.bfloat16(), x.bfloat16()
    losses = with_autocast_inside if way == "autocast inside the loss" else None
    with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast around the loss"):
        norms, expected = method(model, (x, y), losses), alone_as_it_is(model, (x, y), losses)
    assert norms.dtype == torch.float32
    assert_right(norms, expected, rtol=0.02)


@pytest.mark.slow  # loads transformers
@by_both_methods
@pytest.mark.parametrize("name", ["gpt2, next word", "convnext, class of an image"])
def test_autocast_inside_the_loss_of_a_large_model(name, method):
    architecture = zoo.ARCHITECTURES[name]
    model, batch = architecture.build(), architecture.batch(3)

    def losses(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            return architecture.losses(model, batch).float()

    assert_right(method(model, batch, losses), alone_as_it_is(model, batch, losses), rtol=0.05)


# Models that are more than their layers ---------------------------------------------------------------------------


@pytest.mark.slow  # loads the compiler
@by_both_methods
def test_a_compiled_model(method):
    model, batch = perceptron(), vectors()
    compiled = torch.compile(model, backend="eager")
    assert_right(method(compiled, batch), alone(model, batch))
    assert_right(bound(compiled, batch), bound(model, batch))
    model.compile(backend="eager")
    assert_right(method(model, batch), alone(model, batch))


@by_both_methods
def test_features_of_another_network(method):
    """Its examples may mix: it has made the batch, and is not asked about."""
    encoder = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    model, (x, y) = perceptron(), vectors()
    features = encoder(x)
    assert_right(method(model, (features, y)), alone(model, (features.detach(), y)))


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


@by_both_methods
def test_data_parallel(method):
    model, batch = nn.DataParallel(perceptron()), vectors()
    assert_right(method(model, batch), alone(model, batch))


# Batches and targets ----------------------------------------------------------------------------------------------


@by_both_methods
def test_targets_of_another_type(method):
    x, model = torch.randn(6, 4), perceptron()
    regression = nn.Linear(4, 1)
    batch = (x, torch.randn(6, dtype=torch.float64))
    norms = outcome(lambda: method(regression, batch, go.squared_error))
    assert_right_or_refused(norms, alone_as_it_is(regression, batch, go.squared_error))
    classes = torch.arange(6) % 3
    norms = outcome(lambda: method(model, (x, classes.to(torch.uint8))))
    assert_right_or_refused(norms, alone(model, (x, classes)))


@by_both_methods
def test_targets_as_probabilities(method):
    batch = (torch.randn(6, 4), torch.randn(6, 3).softmax(1))
    for model in (perceptron(), nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))):
        assert_right(method(model, batch), alone(model, batch))


def test_inference_mode():
    model, batch = perceptron(), vectors()
    expected = alone(model, batch)
    with torch.inference_mode():
        norms = scored(model, batch)
        made_inside = tuple(part.clone() for part in batch)
        assert_right(scored(model, made_inside), expected)
        assert outcome(lambda: observed(model, batch)) is REFUSED
    with torch.no_grad():
        assert_right(scored(model, batch), expected)
    assert not norms.requires_grad
    assert_right(norms, expected)
    assert_right(scored(model, made_inside), expected)


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
@pytest.mark.parametrize("error", [torch.OutOfMemoryError, KeyError])
def test_an_error_in_the_losses_is_passed_on(error, method):
    """Running out of memory is no reason to try another way, which would take more."""
    calls = []

    def losses(model, batch):
        calls.append(1)
        raise error("no room")

    with pytest.raises(error, match="no room"):
        method(perceptron(), vectors(), losses)
    assert len(calls) == 1


def test_a_refusal_is_told_from_an_error_of_torch():
    with pytest.raises(ValueError, match="at least one parameter") as ours:
        go.gradient_norms(nn.ReLU(), vectors())
    assert is_refusal(ours.value)
    with pytest.raises(RuntimeError) as theirs:
        nn.Linear(4, 3)(torch.randn(2, 5))
    assert not is_refusal(theirs.value)

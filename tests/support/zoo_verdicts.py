"""What the library says about an architecture, next to one autograd pass per example.

Each architecture is tried three times: as it is built, with what is zero at first still zero; after a few steps of
training, on as many examples as positions; and with all parameters frozen but those whose gradients are small, which
would not show among the others.
"""

import re
import statistics
import warnings
from dataclasses import dataclass

import torch
from right_or_refused import is_refusal
from torch import nn

import gradorder as go
from gradorder.batches import num_examples, take
from gradorder.scores import reference

TOLERANCE = 1e-4
"""Relative. The oracle itself, in float32, is off by up to 1.0e-5 from its numbers in float64 (olmo2; the median of the
zoo is 1e-7): ten times that is rounding, and a parameter that is missed, or counted twice, is far more."""
NOISE = 1e-6
"""What a norm of zero may be, relative to the largest of the batch."""
NUM_STEPS, STEP = 3, 0.02


@dataclass(frozen=True)
class Verdict:
    """Each "exact", "exact, slower: why", "refused: why", "fails: how", or "wrong: when"."""

    gradient_norms: str
    observe: str
    last_layer_bound: str

    @property
    def all(self):
        return self.gradient_norms, self.observe, self.last_layer_bound


def verdict(architecture):
    """The words for one architecture."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [each for moment in moments(architecture) for each in tried(architecture, *moment)]
    return Verdict(*(in_words(found, method) for method in METHODS))


def moments(architecture):
    """The model and a batch, at three moments of its life."""
    model = architecture.build()
    torch.manual_seed(1)
    settle(model, architecture.batch(16), architecture.losses)
    yield "as built", model, architecture.batch(4)
    batch = architecture.batch(7)
    train(model, batch, architecture.losses)
    yield "after training", model, batch
    if architecture.is_mixing:  # with some parameters frozen, the gradients of its losses may well be apart
        return
    keep_small_gradients(model, batch, architecture.losses)
    yield "small gradients only", model, batch


def settle(model, batch, losses):
    """BatchNorm gets the statistics of a batch: with those of a new one hardly any gradient goes further down."""
    layers = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    for layer in layers:
        layer.train()
        layer.momentum = 1.0
    if layers:
        losses(model, batch)
    model.eval()


def train(model, batch, losses):
    """Adam moves every parameter that has a gradient by about STEP at each step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=STEP)
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        losses(model, batch).mean().backward()
        optimizer.step()
    optimizer.zero_grad()


def keep_small_gradients(model, batch, losses):
    """Freeze every parameter whose gradient is above the median, and those whose gradient is nothing but rounding."""
    losses(model, batch).mean().backward()
    sizes = {p: p.grad.norm().item() for p in model.parameters() if p.grad is not None}
    smallest = NOISE * max(sizes.values())
    median = statistics.median_low([size for size in sizes.values() if size > smallest])
    model.zero_grad()
    for parameter in model.parameters():
        parameter.requires_grad_(smallest < sizes.get(parameter, 0.0) <= median)


# What is tried ----------------------------------------------------------------------------------------------------


def observed(model, batch, losses):
    """A training step on the whole batch, without dropout."""
    with go.observe_gradient_norms(model) as seen:
        seen.losses(losses(model, batch)).mean().backward()
        return seen.norms


METHODS = {
    "gradient_norms": go.gradient_norms,
    "observe": observed,
    "last_layer_bound": lambda model, batch, losses: go.LastLayerBound(losses)(model, batch),
}


def tried(architecture, moment, model, batch):
    """(method, moment, word) for each method."""
    norms = None if architecture.is_mixing else reference.gradient_norms(model, batch, architecture.losses)
    expected = {"gradient_norms": norms, "observe": norms}
    if moment != "small gradients only":  # a last layer that is frozen is another matter
        is_without = architecture.is_mixing or not has_linear(model)
        last = None if is_without else last_layer_norms(model, batch, architecture.losses)
        expected["last_layer_bound"] = last
    for method, right in expected.items():
        yield method, moment, compared(METHODS[method], right, model, batch, architecture.losses)


def compared(method, right, model, batch, losses):
    """One word; where there is no right number, a refusal is what is right."""
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            norms = method(model, batch, losses)
    except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the table
        return f"refused: {reason(str(error))}" if is_refusal(error) else f"fails: {type(error).__name__}"
    finally:
        model.zero_grad()
    if right is None or not are_equal(norms, right):
        return "wrong"
    slower = [str(each.message) for each in said if "one example at a time" in str(each.message)]
    return f"exact, slower: {reason(slower[0].split(': ', maxsplit=1)[1])}" if slower else "exact"


def are_equal(norms, right):
    """To rounding."""
    return bool(((norms - right).abs() <= TOLERANCE * right + NOISE * right.max()).all())


def reason(message):
    """The first sentence, without clauses that have numbers: they may be others in the next run."""
    clauses = message.split(". ")[0].split(": ")
    return ": ".join(clause for clause in clauses if not re.search(r"\d", clause)).replace("|", "\\|").strip()


def in_words(found, method):
    """One word for all moments: the worst."""
    words = {moment: word for each, moment, word in found if each == method}
    wrong = [moment for moment, word in words.items() if word == "wrong"]
    if wrong:
        return f"wrong: {', '.join(wrong)}"
    by_weight = sorted(
        words.values(), key=lambda word: ["fails", "refused", "exact, slower", "exact"].index(kind(word))
    )
    return by_weight[0]


def kind(word):
    return word.split(":")[0]


# The last layer, one example at a time ----------------------------------------------------------------------------


def has_linear(model):
    return any(isinstance(module, nn.Linear) for module in model.modules())


def last_layer_norms(model, batch, losses):
    """The norm of the gradient that the nn.Linear called last gets from its last call, weight and bias."""
    examples = (take(batch, torch.tensor([i])) for i in range(num_examples(batch)))
    return torch.stack([last_layer_norm(model, example, losses) for example in examples])


def last_layer_norm(model, example, losses):
    calls = []
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    handles = [layer.register_forward_hook(lambda *call: calls.append(call)) for layer in layers]
    loss = losses(model, example)
    for handle in handles:
        handle.remove()
    layer, (inputs,), outputs = calls[-1]
    (gradient,) = torch.autograd.grad(loss.sum(), outputs)
    gradient, inputs = gradient.flatten(0, -2), inputs.detach().flatten(0, -2)
    squares = (gradient.T @ inputs).square().sum()
    if layer.bias is not None:
        squares += gradient.sum(0).square().sum()
    return squares.sqrt()

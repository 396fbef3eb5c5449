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
from gradorder.norms import isolation

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
    """The model, a batch, and its oracle, at three moments of the model's life."""
    model = architecture.build()
    torch.manual_seed(1)
    settle(model, architecture.batch(16), architecture.losses)
    batch = architecture.batch(4)
    yield "as built", model, batch, alone(architecture, model, batch)
    batch = architecture.batch(7)
    train(model, batch, architecture.losses)
    expected = alone(architecture, model, batch)
    yield "after training", model, batch, expected
    if architecture.is_mixing:  # with some parameters frozen, the gradients of its losses may well be apart
        return
    keep_small_gradients(model, batch, architecture.losses)
    yield "small gradients only", model, batch, expected


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


def tried(architecture, moment, model, batch, oracle):
    """(method, moment, word) for each method."""
    norms = None if oracle is None else oracle.norms()
    expected = {"gradient_norms": norms, "observe": norms}
    if moment != "small gradients only":  # a last layer that is frozen is another matter
        expected["last_layer_bound"] = None if oracle is None else oracle.last_layer
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


# The oracle ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alone:
    """What one autograd pass for each example says, for every question that is asked of it."""

    squares: dict[nn.Parameter, torch.Tensor]
    """The squared norm of each parameter's gradient, one number per example."""
    last_layer: torch.Tensor | None
    """The norm of the gradient that the nn.Linear called last gets from its last call; None without such a layer."""

    def norms(self):
        """Over the parameters that are trainable now: freezing the others does not change their gradients."""
        return sum(squares for parameter, squares in self.squares.items() if parameter.requires_grad).sqrt()


def alone(architecture, model, batch):
    """None where an example has no gradient of its own."""
    if architecture.is_mixing:
        return None
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    calls, last = [], []

    def losses(model, example):
        calls.clear()
        value = architecture.losses(model, example)
        if layers:
            layer, (inputs,), outputs = calls[-1]
            outputs.register_hook(lambda gradient: last.append(linear_norm(layer, inputs, gradient)))
        return value

    handles = [layer.register_forward_hook(lambda *call: calls.append(call)) for layer in layers]
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rows = torch.cat([row for row, _ in isolation.one_at_a_time(model, batch, losses)])
    for handle in handles:
        handle.remove()
    assert len(last) == (len(rows) if layers else 0)
    parts = rows.split([parameter.numel() for parameter in parameters], dim=1)
    by_parameter = {p: torch.linalg.vecdot(part, part) for p, part in zip(parameters, parts, strict=True)}
    return Alone(by_parameter, torch.stack(last) if layers else None)


def linear_norm(layer, inputs, gradient):
    """Of weight and bias together."""
    gradient, inputs = gradient.flatten(0, -2), inputs.detach().flatten(0, -2)
    squares = (gradient.T @ inputs).square().sum()
    if layer.bias is not None:
        squares = squares + gradient.sum(0).square().sum()
    return squares.sqrt()

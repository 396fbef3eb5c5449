"""What is said about how norms are computed, and rules of the user's own."""

import pytest
import torch
from torch import nn

import gradorder as go
from gradorder.scores import reference

BATCH = (torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3)


class Scaled(torch.autograd.Function):
    """An operation that nobody knows."""

    @staticmethod
    def forward(ctx, inputs, weight):
        ctx.save_for_backward(inputs, weight)
        return inputs * weight

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight = ctx.saved_tensors
        return gradient * weight, (gradient * inputs).sum(0)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return Scaled.apply(x, self.weight)


def right(layer, inputs, gradient):
    return {"weight": gradient * inputs[0]}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), Scale(), nn.Linear(4, 3))


def test_a_rule_of_ones_own():
    model = network()
    norms = go.GradientNorm(rules={Scale: right})(model, BATCH)
    torch.testing.assert_close(norms, reference.gradient_norms(model, BATCH))
    assert go.explain_norms(model, BATCH, rules={Scale: right}).slower_way is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda *call: {"weight": 1.01 * right(*call)["weight"]}, "gives of 'weight' do not add up"),
        (lambda *call: {"weight": right(*call)["weight"].sum(0)}, r"'weight' of shape \(6, 4\), got \(4,\)"),
        (lambda *call: {}, r"'weight' of shape \(6, 4\), got None"),
        (lambda *call: {"weight": right(*call)["weight"].flip(0)}, "gives of 'weight' do not add up"),
        (lambda *call: {"weight": right(*call)["weight"].mean(0).expand(6, 4)}, "gives of 'weight' do not add up"),
    ],
)
def test_a_wrong_rule_is_noticed_in_every_call(wrong, message):
    model = network()
    go.GradientNorm(rules={Scale: right})(model, BATCH)
    with pytest.raises(ValueError, match=message):
        go.GradientNorm(rules={Scale: wrong})(model, BATCH)


class Around(nn.Module):
    """A layer with a rule that is given something made by another layer."""

    def __init__(self, layer, call):
        super().__init__()
        self.first, self.other, self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 4), layer, nn.Linear(4, 3)
        self.call = call

    def forward(self, x):
        return self.head(self.call(self.layer, self.first(x).tanh(), self.other(x)).tanh())


class ScaleAndAdd(Scale):
    def forward(self, x, others=(), *, added=0.0):
        return Scaled.apply(x, self.weight) + sum(others) + added


class ScaleTwice(Scale):
    def __init__(self):
        super().__init__()
        self.inner = Scale()

    def forward(self, x):
        return self.inner(Scaled.apply(x, self.weight))


def right_twice(layer, inputs, gradient):
    return {"weight": gradient * inputs[0] * layer.inner.weight, "inner.weight": gradient * inputs[0] * layer.weight}


CALLS = {
    "by keyword": lambda layer, x, other: layer(x, added=other),
    "in a tuple": lambda layer, x, other: layer(x, (other, 1.0)),
    "in a list and by keyword": lambda layer, x, other: layer(x, [other], added=other),
    "in none": lambda layer, x, other: layer(x),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_layer_with_a_rule_is_given_tensors_in_any_way(call):
    model = Around(ScaleAndAdd(), call)
    norms = go.gradient_norms(model, BATCH, rules={ScaleAndAdd: right})
    torch.testing.assert_close(norms, reference.gradient_norms(model, BATCH))


def test_a_rule_speaks_for_the_layers_inside():
    model = Around(ScaleTwice(), CALLS["in none"])
    norms = go.gradient_norms(model, BATCH, rules={ScaleTwice: right_twice})
    torch.testing.assert_close(norms, reference.gradient_norms(model, BATCH))
    with pytest.raises(
        ValueError, match=r"the rule for ScaleTwice must give 'inner.weight' of shape \(6, 4\), got None"
    ):
        go.gradient_norms(model, BATCH, rules={ScaleTwice: lambda *call: {"weight": right_twice(*call)["weight"]}})


class Hidden:
    """A tensor where nobody looks for one."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __radd__(self, number):
        return self.tensor + number


def test_what_a_layer_with_a_rule_uses_besides_is_not_left_out():
    model = Around(ScaleAndAdd(), lambda layer, x, other: layer(x, [Hidden(other)]))
    with pytest.warns(UserWarning, match=r"ScaleAndAdd: it uses a parameter of shape \(4,.* no parameter of its own"):
        norms = go.gradient_norms(model, BATCH, rules={ScaleAndAdd: right})
    torch.testing.assert_close(norms, reference.gradient_norms(model, BATCH))


def test_a_rule_needs_the_examples_first_in_all_inputs():
    model = Around(ScaleAndAdd(), lambda layer, x, other: layer(x, added=layer.weight[None] * 2))
    with pytest.warns(UserWarning, match="examples along the first dimension of its output and its inputs"):
        norms = go.gradient_norms(model, BATCH, rules={ScaleAndAdd: right})
    torch.testing.assert_close(norms, reference.gradient_norms(model, BATCH))


def test_rules_are_functions_of_layers():
    with pytest.raises(TypeError, match="rules must map classes of layers to functions"):
        go.GradientNorm(rules={"Scale": right})(network(), BATCH)


@pytest.mark.filterwarnings("ignore:the gradient norms of this")
def test_the_slower_way_is_explained():
    explained = go.explain_norms(network(), BATCH)
    assert explained.parameters == ()
    assert "ScaledBackward" in explained.slower_way
    assert str(explained).startswith("each example is differentiated by itself: ")


def test_every_parameter_is_explained():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 4)
            self.unused = nn.Linear(2, 2)
            self.head = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))

        def forward(self, x):
            return self.head(torch.tanh(self.body(self.body(x))))

    explained = go.explain_norms(Tied(), BATCH)
    said = {each.name: (each.operations, each.how) for each in explained.parameters}
    assert said["body.weight"] == (("Addmm", "Addmm"), "used 2 times, with cross terms")
    assert said["head.bias"] == (("Addmm",), "used once")
    assert said["unused.weight"] == ((), "no loss depends on it")
    assert said["head.parametrizations.weight.original0"][1].startswith("through what is made of it")
    assert explained.cost > 0
    assert all(name in str(explained) for name in said)


def test_losses_that_depend_on_no_parameter():
    model = nn.Linear(4, 3)
    explained = go.explain_norms(model, BATCH, lambda model, batch: go.cross_entropy(model, batch).detach())
    assert [each.how for each in explained.parameters] == ["no loss depends on it"] * 2
    assert explained.slower_way is None


def test_a_hook_on_a_parameter_is_a_reason_for_the_slower_way():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    model[0].weight.register_hook(lambda gradient: gradient * 2)
    with pytest.warns(UserWarning, match="one example at a time"):
        assert "register_hook" in str(go.explain_norms(model, BATCH))

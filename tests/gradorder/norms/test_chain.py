"""The hand-differentiated chain is used only where it cannot differ from the model."""

from contextlib import contextmanager, nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import gradorder as go
from gradorder.norms import chain, reference

BATCH = (torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3)


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


@contextmanager
def patched(owner, name, replacement):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, replacement)
        yield


class Scaling(TorchFunctionMode):
    """Every linear layer gives twice as much."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return 2 * result if function is F.linear else result


class ScalingBelow(TorchDispatchMode):
    """The same, below autograd: its gradient stays."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return 2 * result if function is torch.ops.aten.addmm.default else result


def twice(function):
    return lambda *args, **options: 2 * function(*args, **options)


CHANGES = {
    "nothing": lambda model: nullcontext(),
    "a patched class": lambda model: patched(nn.Linear, "forward", twice(nn.Linear.forward)),
    "a patched ReLU": lambda model: patched(nn.ReLU, "forward", lambda self, x: x.tanh()),
    "a patched function": lambda model: patched(F, "linear", twice(F.linear)),
    "a patched loss": lambda model: patched(F, "cross_entropy", twice(F.cross_entropy)),
    "a patched call": lambda model: patched(nn.Module, "__call__", twice(nn.Module.__call__)),
    "a patched instance": lambda model: patched(model[0], "forward", twice(model[0].forward)),
    "a patched call of an instance": lambda model: patched(model[0], "_call_impl", twice(model[0]._call_impl)),
    "a function mode": lambda model: Scaling(),
    "a dispatch mode": lambda model: ScalingBelow(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_was_changed_counts(change):
    model = network()
    with change(model):
        expected = reference.gradient_norms(model, BATCH)
        torch.testing.assert_close(go.gradient_norms(model, BATCH), expected)
        used = chain.gradient_norms(model, BATCH, go.cross_entropy)
    assert (used is not None) == (change is CHANGES["nothing"])


class Doubled(torch.Tensor):
    """A tensor with a way of its own to be multiplied."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs or {})
        return 2 * result if function is F.linear else result


def test_tensors_of_another_class_go_through_the_graph():
    assert chain.gradient_norms(network(), (BATCH[0].as_subclass(Doubled), BATCH[1]), go.cross_entropy) is None

"""What does not fit is refused in one line, before anything is trained."""

import sys
from pathlib import Path

import numpy as np
import pytest
from trainings import plain

from gradorder_lab.benchmark import fit, running
from gradorder_lab.benchmark.task import Task
from gradorder_lab.commands import compare as command
from gradorder_lab.errors import LabError
from gradorder_lab.runs.recipe import Workspace

CODE = """
import torch
from torch import nn
import gradorder as go

def network(classes, inputs):
    return nn.Linear(inputs[0], classes)

def of_one(classes):
    return nn.Linear(12, classes)

def number(classes, inputs):
    return 3

def frozen(classes, inputs):
    return nn.Linear(inputs[0], classes).requires_grad_(False)

def broken(classes, inputs):
    return nn.Linear(inputs[1], classes)

def for_others(classes, inputs):
    return nn.Linear(7, classes)

def too_few(classes, inputs):
    return nn.Linear(inputs[0], 2)

def normed(classes, inputs):
    return nn.Sequential(nn.Linear(inputs[0], 4), nn.BatchNorm1d(4), nn.Linear(4, classes))

made = nn.Linear(12, 3)

def three(model, batch):
    return torch.zeros(3)

def mean(model, batch):
    return go.cross_entropy(model, batch).mean()

def of_a_model(model):
    return model

def detached(model, batch):
    return go.cross_entropy(model, batch).detach()

class Backwards(go.Ordering):
    needs_scores = False
    def order(self, request):
        return go.Order(torch.arange(request.num_examples).flip(0))

class Nobody(go.Selection):
    def choose(self, model, batch):
        return torch.arange(0), None

class Outside(go.Selection):
    def choose(self, model, batch):
        return torch.tensor([1000]), None
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A request for a network, losses or methods of a module that no other test has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.setattr(running, "compared", lambda *_, **__: pytest.fail("nothing is to be run"))
    monkeypatch.setattr(command, "train_one_epoch", lambda *_: pytest.fail("nothing is to be trained"))
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 12)).astype(np.float32), np.arange(60) % 3
    np.savez("own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    name = f"own_fit_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(CODE)

    def make(model="network", losses=None, methods=("recommended",), **settings):
        told = {"losses": None if losses is None else f"{name}:{losses}", "batch_size": 20, "epochs": 2}
        own = tuple(f"{name}:{method}" if method[0].isupper() else method for method in methods)
        return command.ComparisonRequest(Task("own", "own.npz", f"{name}:{model}", **(told | settings)), methods=own)

    yield make
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model": "of_one"},
            r"--model .* must be a function of the number of classes and the shape .* of_one\(classes\)",
        ),
        ({"model": "made"}, "--model .* must be a function .* which makes the network anew, got Linear"),
        ({"model": "number"}, "--model .* must give a torch.nn.Module, got 3"),
        ({"model": "frozen"}, "--model .* must give a network with something to train"),
        (
            {"model": "broken"},
            "--model .* must give a network for these data, got IndexError: tuple index out of range",
        ),
        ({"model": "for_others"}, r"--model .* must fit the data, a batch of inputs \(8, 12\) .* RuntimeError: mat1"),
        ({"model": "too_few"}, r"--model .* one number for each class, shape \(8, 3\) .* got shape \(8, 2\)"),
        ({"losses": "three"}, r"--losses .* must give one number per example, shape \(8,\) here, got shape \(3,\)"),
        ({"losses": "mean"}, r"--losses .* must give one number per example, shape \(8,\) here, got shape \(\)"),
        ({"losses": "of_a_model"}, "--losses .* must fit the data, .* got TypeError: .*positional argument"),
        ({"losses": "detached"}, "--losses .* got numbers without grad"),
        (
            {"model": "normed", "batch_size": 59},
            "--batch-size must not leave one of 60 .* got 59: ValueError: Expected",
        ),
        (
            {"model": "normed", "batch_size": 53},
            "--batch-size must not leave one of 54 .* got 53: ValueError: Expected",
        ),
        ({"methods": ("Backwards",)}, r"--method .*:Backwards' must keep the contract of orderings: .*frozen=True"),
        ({"methods": ("Nobody",)}, r"--method .*:Nobody' must select at least one example .* got 0 examples"),
        ({"methods": ("Outside",)}, r"--method .*:Outside' must select examples of a batch, got IndexError"),
        ({"step_sizes": (0.1, -0.2)}, r"--step-size must be positive and finite, got -0.2"),
        ({"step_sizes": (0.0,)}, r"--step-size must be positive and finite, got 0.0"),
        ({"step_sizes": (float("nan"),)}, r"--step-size must be positive and finite, got nan"),
    ],
)
def test_what_does_not_fit_is_refused(asked, tmp_path, settings, message):
    with pytest.raises(LabError, match=message) as raised:
        command.compare(asked(**settings), tmp_path / "out")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("model", "batch_size"), [("normed", 20), ("network", 59)])
def test_a_last_batch_of_one_is_refused_only_where_it_cannot_be_trained_on(asked, model, batch_size):
    task = command.planned(asked(model, batch_size=batch_size)).task
    training = plain(task)
    fit.check_last_batch(training, training.split(Path("own.npz")))


def test_a_method_that_leaves_one_example_of_a_batch_says_so_in_one_line(asked):
    task = command.planned(asked("normed")).task
    run = plain(task).start(0, Workspace(data=Path("own.npz")))
    run.update(run.train.batch([0, 1]), None, 0.1)
    with pytest.raises(LabError, match="batch of one example"):
        run.update(run.train.batch([0]), None, 0.1)


def test_too_few_examples_to_choose_a_step_size_by(asked, tmp_path):
    x, y = np.zeros((4, 12), np.float32), np.arange(4) % 2
    np.savez("own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(LabError, match=r"x_train .* got 4"):
        command.compare(asked(), tmp_path / "out")

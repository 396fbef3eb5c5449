"""Losses of the user's own: regression, in a file of the current directory."""

import sys
from math import inf, isnan, nan

import numpy as np
import pytest
import torch
from trainings import plain, split_of

import gradorder as go
from gradorder_lab.benchmark.measure import ACCURACY, LOSS
from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.task import Task
from gradorder_lab.commands import compare as command
from gradorder_lab.errors import LabError
from gradorder_lab.methods import BASELINE, CORE, METHODS
from gradorder_lab.training import own

CODE = """
from torch import nn

def linear(outputs, inputs):
    return nn.Linear(inputs[0], outputs)

def squared(model, batch):
    inputs, targets = batch
    return (model(inputs) - targets).square().sum(1)

def absolute(model, batch):
    inputs, targets = batch
    return (model(inputs) - targets).abs().sum(1)

def one_number(model, batch):
    return squared(model, batch).mean()
"""
SLOPES = np.array([[1.0, -2.0], [0.5, 3.0], [0.0, 1.0]])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory to work in, with a module and data that no other test has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((400, 3))
    targets = inputs @ SLOPES + 0.1 * rng.standard_normal((400, 2))
    np.savez("own.npz", x_train=inputs[:300], y_train=targets[:300], x_test=inputs[300:], y_test=targets[300:])
    name = f"own_losses_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(CODE)
    yield name
    sys.modules.pop(name, None)


def regression(here, losses="squared"):
    return Task(
        "own", "own.npz", f"{here}:linear", epochs=3, batch_size=30, step_sizes=(0.05,), losses=f"{here}:{losses}"
    )


def test_plain_training_is_the_loop_by_hand(here):
    """Fails where the losses are not those that were named: squared ones end elsewhere."""
    task = regression(here, "absolute")
    rows = CompareRecipe.of(task, BASELINE, 0.05, 1.0).run(seed=2)
    split = split_of(task, None, validates=False)
    model = plain(task).network(split, seed=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = go.OrderedSampler(300, 30, ordering=go.Shuffled(), seed=2)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for number, batch in enumerate(torch.tensor(list(sampler)).split(30)):
            optimizer.param_groups[0]["lr"] = 0.05 * (1 + np.cos(np.pi * (epoch + number / 10) / 3)) / 2
            optimizer.zero_grad()
            inputs, targets = split.train.batch(batch)
            (model(inputs) - targets).abs().sum(1).mean().backward()
            optimizer.step()
    inputs, targets = split.test.batch(torch.arange(100))
    assert rows["test_loss"][0] == pytest.approx(float((model(inputs) - targets).abs().sum(1).mean().detach()))
    assert isnan(rows["test_accuracy"][0])
    other = CompareRecipe.of(regression(here), BASELINE, 0.05, 1.0).run(seed=2)
    assert other["test_loss"][0] != pytest.approx(rows["test_loss"][0], rel=0.1)


SUITABLE = [name for name, method in METHODS.items() if not method.needs_classes]


@pytest.mark.parametrize("method", SUITABLE)
@pytest.mark.filterwarnings("ignore:epoch .* has .* steps")
def test_every_method_that_needs_no_classes_learns(method, here):
    recipe = CompareRecipe.of(regression(here), method, 0.05, 1.0)
    assert recipe.run(seed=0)["test_loss"][0] < 3 < float(np.square(SLOPES).sum())


def test_one_number_per_example_whole_or_not(here):
    with np.load("own.npz") as file:
        np.savez("flat.npz", **{name: array[:, 0] if name[0] == "y" else array for name, array in file.items()})
    task = Task("flat", "flat.npz", f"{here}:linear", 1, losses="gradorder:squared_error", step_sizes=(0.05,))
    split = split_of(task, None, validates=False)
    assert split.num_classes == 1
    assert split.train.labels.dtype == torch.float32
    assert CompareRecipe.of(task, BASELINE, 0.05, 1.0).run(seed=0)["test_loss"][0] > 0


def test_the_command_tells_the_loss_and_leaves_out_what_needs_classes(here, tmp_path, capsys):
    task = regression(here)
    assert set(command.planned(command.ComparisonRequest(task)).methods) == set(CORE) & set(SUITABLE)
    command.compare(
        command.ComparisonRequest(task, methods=("recommended",), budgets=(0.8,), seeds=2), tmp_path / "out"
    )
    told = capsys.readouterr().out
    assert "would skip" in told
    assert "loss" in told.partition("gradients")[2]
    assert "accuracy" not in told.partition("target")[2]
    with pytest.raises(LabError, match="--method 'Ordered SGD' needs classes, and own has none"):
        command.planned(command.ComparisonRequest(task, methods=("Ordered SGD",)))


def test_changed_losses_are_another_task(here, tmp_path):
    asked = command.ComparisonRequest(regression(here))
    before = command.planned(asked).task
    assert before.losses == own.marked(f"{here}:squared", "--losses")
    (tmp_path / f"{here}.py").write_text(CODE + "\n# another thought\n")
    assert command.planned(asked).task.losses != before.losses


def test_one_loss_for_a_batch_is_refused(here):
    with pytest.raises(LabError, match=r"losses must give one number per example, shape \(30,\) here, got shape \(\)"):
        CompareRecipe.of(regression(here, "one_number"), BASELINE, 0.05, 1.0).run(seed=0)


def test_what_is_not_there_or_makes_no_sense_is_refused(here):
    with pytest.raises(LabError, match=r"--losses .* must name something that can be imported"):
        command.planned(command.ComparisonRequest(regression(here, "nowhere")))
    with pytest.raises(ValueError, match="wrong_labels and rarest"):
        Task("own", "own.npz", "2-layer", 1, losses="gradorder:squared_error", wrong_labels=0.2)


def test_the_larger_goodness_is_the_better():
    assert ACCURACY.goodness(90.0) > ACCURACY.goodness(80.0)
    assert LOSS.goodness(0.1) > LOSS.goodness(0.2) > LOSS.goodness(nan) == LOSS.goodness(inf) == -inf
    assert LOSS.margin(LOSS.goodness(2.0), 0.5) == LOSS.margin(LOSS.goodness(-2.0), 0.5) == pytest.approx(0.01)
    assert ACCURACY.margin(88.0, 0.5) == 0.5

"""What all methods have in common in a run of the benchmark."""

from dataclasses import replace

import pytest
import torch

from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.task import Task
from gradorder_lab.methods import BASELINE, METHODS


@pytest.mark.parametrize("budget", [1.0, 0.9, 0.65])
def test_the_learning_rate_is_the_same_function_of_progress_for_every_method(budget):
    """Also where the run ends within an epoch, and where only one of them knows its steps in advance."""
    task = Task("", "terrain", "2-layer", epochs=2)
    rates = {}
    for name in (BASELINE, "InfoBatch", "shuffle once"):
        run = task.training(METHODS[name], 0.2, budget=budget).start(0)
        rates[name] = [run.step_size(999, epoch, part) for epoch in (0, 1, 2) for part in (0.0, 0.25, 0.9)]
    assert rates[BASELINE] == rates["InfoBatch"] == rates["shuffle once"]
    assert rates[BASELINE][0] == 0.2
    assert rates[BASELINE] == sorted(rates[BASELINE], reverse=True)


def test_the_optimizer_is_the_tasks_and_leaves_the_identity_of_older_rows_as_it_was():
    plain = Task("", "terrain", "2-layer", epochs=1)
    adam = replace(plain, optimizer="AdamW", weight_decay=0.01)
    assert "optimizer" not in CompareRecipe.of(plain, BASELINE, 0.1, 1.0).settings
    recipe = CompareRecipe.of(adam, BASELINE, 0.001, 0.1)
    assert recipe.settings["optimizer"] == "AdamW"
    optimizer = recipe.training.start(0).optimizer
    assert isinstance(optimizer, torch.optim.AdamW)
    assert optimizer.param_groups[0]["weight_decay"] == 0.01
    assert recipe.run(0)["test_accuracy"][0] > 10

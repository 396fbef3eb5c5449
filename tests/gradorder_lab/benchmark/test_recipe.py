"""What all methods have in common in a run of the benchmark."""

import pytest
import torch

from gradorder_lab.benchmark.methods import BASELINE, RECOMMENDED, Circumstances, named
from gradorder_lab.benchmark.recipe import benchmark_run
from gradorder_lab.benchmark.task import Split, Task
from gradorder_lab.data.examples import LabelledTensors


@pytest.mark.parametrize("length", [2.0, 2.5, 1.3])
def test_the_learning_rate_is_the_same_function_of_progress_for_every_method(length):
    """Also where the run ends within an epoch, and where only one of them knows its steps in advance."""
    labels = torch.arange(100) % 2
    data = LabelledTensors(torch.randn(100, 3), labels)
    rates = {}
    for name in (BASELINE, RECOMMENDED, "shuffle once"):
        strategy = named(name).build(Circumstances(labels, 7, 2, 1.0, seed=0))
        task = Task("", "terrain", "2-layer", epochs=2, batch_size=7)
        run = benchmark_run(task, Split(data, data, 2), strategy, step_size=0.2, length=length, seed=0)
        rates[name] = [run.step_size(999, epoch, part) for epoch in (0, 1, 2) for part in (0.0, 0.25, 0.9)]
    assert rates[BASELINE] == rates[RECOMMENDED] == rates["shuffle once"]
    assert rates[BASELINE][0] == 0.2
    assert rates[BASELINE] == sorted(rates[BASELINE], reverse=True)

import math

import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR

import gradorder as go

FORMULAS = [
    (go.Constant(0.3), lambda t, k: 0.3),
    (go.InversePerStep(0.3), lambda t, k: 0.3 / (1 + t)),
    (go.InversePerStep(0.3, scale=10), lambda t, k: 0.3 / (1 + t / 10)),
    (go.InverseSqrtPerStep(0.3), lambda t, k: 0.3 / math.sqrt(1 + t)),
    (go.InversePerEpoch(0.3), lambda t, k: 0.3 / (1 + k)),
    (go.InverseSqrtPerEpoch(0.3), lambda t, k: 0.3 / math.sqrt(1 + k)),
]


@pytest.mark.parametrize(("schedule", "formula"), FORMULAS, ids=range(6))
def test_formula_and_factor(schedule, formula):
    factor = schedule.factor(steps_per_epoch=7)
    for step in range(30):
        assert schedule(step, step // 7) == pytest.approx(formula(step, step // 7))
        assert factor(step) == pytest.approx(formula(step, step // 7) / 0.3)


@pytest.mark.parametrize(
    ("schedule", "counts_epochs"),
    [
        (go.InversePerStep(0.3, since=5), False),
        (go.InverseSqrtPerStep(0.3, since=5), False),
        (go.InversePerEpoch(0.3, since=5), True),
        (go.InverseSqrtPerEpoch(0.3, since=5), True),
    ],
    ids=str,
)
def test_since_restarts_the_count(schedule, counts_epochs):
    plain = type(schedule)(0.3)
    for count in range(12):
        restarted = count - 5 if count >= 5 else count
        at, expected_at = ((0, count), (0, restarted)) if counts_epochs else ((count, 0), (restarted, 0))
        assert schedule(*at) == plain(*expected_at)


def test_factor_drives_an_optimizer():
    schedule = go.InversePerStep(0.5, scale=3)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=schedule.a)
    scheduler = LambdaLR(optimizer, schedule.factor(10))
    for step in range(20):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(schedule(step, step // 10))
        optimizer.step()
        scheduler.step()
    assert scheduler.state_dict()["lr_lambdas"] == [None]  # nothing in a checkpoint that needs unpickling


def test_factor_follows_epochs_of_different_length():
    sampler = go.OrderedSampler(10, 2, ordering=go.Shuffled(), keep=0.5, start_epoch=1)
    factor = go.InversePerEpoch(1.0).factor(sampler.num_steps)
    epochs = [0] * 5 + [1] * 3 + [2] * 3
    assert [factor(step) for step in range(11)] == [1 / (1 + epoch) for epoch in epochs]
    assert factor(0) == 1.0

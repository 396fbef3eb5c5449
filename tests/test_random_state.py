"""No public call touches the global random state of Python, numpy or torch."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gradorder as go
from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor
from gradorder_lab import theory

MODEL = nn.Sequential(nn.Linear(3, 8), nn.Dropout(), nn.ReLU(), nn.Linear(8, 2))
BATCH = (torch.ones(6, 3), torch.tensor([0, 1] * 3))
DATA = TensorDataset(*BATCH)
X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1] * 3)


def ordered(ordering):
    return ordering(torch.rand(5, generator=torch.Generator()), epoch=1, generator=torch.Generator())


def balanced():
    sampler = go.OrderedSampler(6, 2, ordering=go.GradientBalancing())
    for epoch in range(2):
        sampler.set_epoch(epoch)
        list(sampler)
        for _ in range(3):
            sampler.step(gradients=torch.ones(2, 4))


def sampled(**settings):
    sampler = go.OrderedSampler(6, 2, **{"ordering": go.Descending(), **settings})
    for epoch in range(2):
        sampler.set_epoch(epoch, scores=torch.arange(6.0))
        for _, targets in DataLoader(DATA, 2, sampler=sampler, generator=torch.Generator()):
            sampler.step(torch.ones(len(targets)))
    sampler.load_state_dict(sampler.state_dict())


def presampled(scores):
    select = go.ImportanceSampling(1)
    select.observe(scores)
    select.weighted(MODEL, BATCH)


def bounded():
    epoch = theory.record_epoch(
        lambda x: x**2, lambda x, _: 2 * x, start=[1.0], optimum=[0.0], order=[0], step_sizes=0.1
    )
    theory.epoch_bound(epoch)


CALLS = {
    "gradient_norms": lambda: go.gradient_norms(MODEL, BATCH),
    "per_example_gradients": lambda: go.per_example_gradients(MODEL, BATCH),
    "LastLayerBound": lambda: go.LastLayerBound()(MODEL, BATCH),
    "LogitError": lambda: go.LogitError()(MODEL, BATCH),
    "Loss": lambda: go.Loss()(MODEL, BATCH),
    "score_dataset": lambda: go.score_dataset(MODEL, DATA, go.GradientNorm()),
    "KeepHardest": lambda: go.KeepHardest(0.5)(MODEL, BATCH),
    "SmallestLoss": lambda: go.SmallestLoss(2)(MODEL, BATCH),
    "TopLosses": lambda: go.TopLosses(6)(MODEL, BATCH),
    "TopLosses, own losses": lambda: go.TopLosses(6).mean(torch.ones(6)),
    "SelectiveBackprop": lambda: go.SelectiveBackprop()(MODEL, BATCH),
    "ImportanceSampling": lambda: presampled(torch.tensor([9.0, *[0.1] * 99])),
    "ImportanceSampling, off": lambda: presampled(torch.ones(6)),
    "Descending": lambda: ordered(go.Descending()),
    "Shuffled": lambda: ordered(go.Shuffled()),
    "ShuffledOnce": lambda: ordered(go.ShuffledOnce()),
    "PlackettLuce": lambda: ordered(go.PlackettLuce()),
    "PlackettLuce, unbiased": lambda: sampled(ordering=go.PlackettLuce(unbiased=True), keep=0.5),
    "Revisiting": lambda: ordered(go.Revisiting(go.PlackettLuce())),
    "Undecided": lambda: ordered(go.Undecided(go.PlackettLuce())),
    "Unlearned": lambda: ordered(go.Unlearned()),
    "WithReplacement": lambda: ordered(go.WithReplacement()),
    "BlockShuffled": lambda: ordered(go.BlockShuffled(2)),
    "InfoBatch": lambda: sampled(ordering=go.InfoBatch(9)),
    "GradientBalancing": balanced,
    "FlipFlop": lambda: ordered(go.FlipFlop(go.Shuffled())),
    "OrderedSampler": sampled,
    "OrderedSampler, random": lambda: sampled(ordering=go.Shuffled(), keep=0.5),
    "OrderedSampler, shuffled layout": lambda: sampled(layout="shuffled", keep=0.5),
    "OrderedSampler, drawn": lambda: sampled(ordering=go.PlackettLuce(), labels=[0, 1] * 3),
    "advise": lambda: go.advise(MODEL, DATA, batch_size=3),
    "bounds": bounded,
    "OrderedSGDRegressor": lambda: OrderedSGDRegressor(max_iter=3, tol=None).fit(X, Y),
    "OrderedSGDRegressor, seeded": lambda: OrderedSGDRegressor(max_iter=3, tol=None, random_state=1).fit(X, Y),
    "OrderedSGDClassifier": lambda: OrderedSGDClassifier(max_iter=3, tol=None, ordering="random").fit(X, Y),
}


def state():
    kind, keys, *rest = np.random.get_state()
    return random.getstate(), (kind, keys.tolist(), *rest), torch.get_rng_state().tolist()


@pytest.mark.filterwarnings("ignore:.*predicts .* for every example:UserWarning")  # of six examples
@pytest.mark.parametrize("name", CALLS)
def test_it_is_the_same_before_and_after(name):
    before = state()
    CALLS[name]()
    assert state() == before

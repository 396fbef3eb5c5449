"""The estimators refuse what the sampler refuses, and what only a sampler can serve."""

import numpy as np
import pytest

import gradorder as go
from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor

INPUTS = np.arange(80.0).reshape(40, 2) / 80
TARGETS = INPUTS @ [1.0, -2.0]
CLASSES = np.arange(40) % 2
SHARED = {
    "draws with keep": (
        {"ordering": go.WithReplacement(), "keep": 0.5},
        "labels and keep must not be given with WithRep",
    ),
    "a part too small": (
        {"ordering": go.Revisiting(go.Descending(), every=8), "keep": 0.05},
        r"keep must be at least 0.125 with Revisiting\(.*\), got 0.05",
    ),
    "a part too small, backwards": (
        {"ordering": go.FlipFlop(go.Revisiting(go.Descending(), every=5)), "keep": 0.1},
        r"keep must be at least 0.2 with ",
    ),
    "prunes by itself": ({"ordering": go.InfoBatch(10), "keep": 0.5}, "keep must not be given with InfoBatch"),
    "learns, with keep": (
        {"ordering": go.GradientBalancing(), "keep": 0.5},
        "keep .*must not be given with GradientBal",
    ),
}
ONLY_A_SAMPLER = {
    "weighted by pruning": (
        {"ordering": go.InfoBatch(10)},
        "ordering must give equal weights .* use it with OrderedSam",
    ),
    "unbiased": ({"ordering": go.PlackettLuce(unbiased=True), "keep": 0.5}, "ordering must give equal weights to"),
    "unbiased inside": (
        {"ordering": go.FlipFlop(go.Undecided(go.PlackettLuce(unbiased=True)))},
        "ordering must give equal weights to",
    ),
    "learns": ({"ordering": go.GradientBalancing()}, "gradients must be given to every step with GradientBalancing"),
}


@pytest.mark.parametrize("name", SHARED | ONLY_A_SAMPLER)
@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("make", [OrderedSGDRegressor, OrderedSGDClassifier])
def test_estimators_refuse(make, batch_size, name):
    settings, message = (SHARED | ONLY_A_SAMPLER)[name]
    estimator = make(batch_size=batch_size, **settings)
    with pytest.raises(ValueError, match=message):
        estimator.fit(INPUTS, TARGETS if make is OrderedSGDRegressor else CLASSES)
    assert not hasattr(estimator, "coef_")


@pytest.mark.parametrize("name", SHARED)
def test_the_sampler_refuses_the_same_in_the_same_words(name):
    settings, message = SHARED[name]
    with pytest.raises(ValueError, match=message):
        go.OrderedSampler(40, 10, **settings)


def test_what_they_need_not_refuse_they_take():
    for ordering, keep in [
        (go.WithReplacement(), 1.0),
        (go.Revisiting(go.Descending(), every=8), 0.125),
        (go.Undecided(go.Revisiting(go.PlackettLuce(), every=4)), 0.5),
    ]:
        OrderedSGDRegressor(batch_size=10, ordering=ordering, keep=keep, max_iter=3, tol=None).fit(INPUTS, TARGETS)

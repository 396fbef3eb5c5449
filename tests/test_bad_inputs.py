"""Bad input is refused where it is given, by an error that names the argument, the rule and the value."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset, TensorDataset

import gradorder as go
from gradorder import bounds
from gradorder.sklearn import OrderedSGDClassifier, OrderedSGDRegressor

NAN, INF = float("nan"), float("inf")
MODEL = nn.Linear(3, 2)
BATCH = (torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64))
DATA = TensorDataset(*BATCH)
X, Y = np.ones((6, 2)), np.arange(6.0)
CLASSES = np.array([0, 1, 0, 1, 0, 1])


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def sampler(**settings):
    return go.OrderedSampler(settings.pop("data", 10), settings.pop("batch_size", 2), **settings)


def planned(scores, **settings):
    one = sampler(**settings)
    one.set_epoch(0, scores=scores)
    return one


def ordered(ordering, scores, **settings):
    return ordering(scores, epoch=settings.pop("epoch", 0), generator=torch.Generator(), **settings)


def regressor(**settings):
    return OrderedSGDRegressor(**settings).fit(X, Y)


def classifier(**settings):
    return OrderedSGDClassifier(**settings).fit(X, CLASSES)


def epoch(**changes):
    given = {
        "start": [1.0],
        "end": [0.9],
        "optimum": [0.0],
        "step_sizes": [0.1],
        "start_gradients": [[1.0]],
        "gradients": [[1.0]],
        "values": [0.5],
        "optimal_values": [0.0],
    }
    return bounds.RecordedEpoch(**(given | changes))


def consumed(scores):
    one = sampler()
    next(iter(one))
    one.step(scores)


SAMPLER = {
    "no examples": (lambda: sampler(data=0), "dataset_or_length.* 0"),
    "negative length": (lambda: sampler(data=-3), "dataset_or_length.* -3"),
    "empty data set": (lambda: sampler(data=[]), "dataset_or_length.*empty list"),
    "iterable data set": (lambda: sampler(data=Stream()), "dataset_or_length must be map-style"),
    "batch size 0": (lambda: sampler(batch_size=0), "batch_size must be a positive integer, got 0"),
    "batch size 2.5": (lambda: sampler(batch_size=2.5), "batch_size must be a positive integer, got 2.5"),
    "batch size True": (lambda: sampler(batch_size=True), "batch_size must be a positive integer, got True"),
    "keep 0": (lambda: sampler(keep=0.0), r"keep must be in \(0, 1\], got 0.0"),
    "keep 1.5": (lambda: sampler(keep=1.5), r"keep must be in \(0, 1\], got 1.5"),
    "keep NaN": (lambda: sampler(keep=NAN), r"keep must be in \(0, 1\], got nan"),
    "keep text": (lambda: sampler(keep="half"), "keep must be .*'half'"),
    "keep function": (lambda: planned(torch.rand(10), keep=lambda _: 2.0), "keep.* 2.0"),
    "start epoch": (lambda: sampler(start_epoch=-1), "start_epoch must be an integer >= 0, got -1"),
    "seed": (lambda: sampler(seed=-1), "seed must be an integer >= 0, got -1"),
    "seed text": (lambda: sampler(seed="one"), "seed must be an integer >= 0, got 'one'"),
    "layout": (lambda: sampler(layout="random"), "layout must be .*'random'"),
    "dealt without scores": (lambda: sampler(ordering=go.Shuffled(), layout="dealt"), "layout.*dealt"),
    "ordering text": (lambda: sampler(ordering="descending"), "ordering must be .*'descending'"),
    "labels too few": (lambda: sampler(labels=[0, 1]), "labels must .*10.*2"),
    "labels NaN": (lambda: sampler(labels=[NAN] * 10), "labels must"),
    "replicas": (lambda: sampler(num_replicas=0, rank=0), "num_replicas must be a positive integer, got 0"),
    "rank": (lambda: sampler(num_replicas=2, rank=2), "rank must be below num_replicas=2, got 2"),
    "indivisible": (lambda: sampler(num_replicas=4, rank=0), "batch_size must be divisible by num_replicas=4, got 2"),
    "epoch": (lambda: sampler().set_epoch(-1), "epoch must be an integer >= 0, got -1"),
    "scores too few": (lambda: planned(torch.rand(9)), "scores must hold one number per example: expected 10, got 9"),
    "scores averaged": (lambda: planned(torch.tensor(0.5)), 'scores.*reduction="none"'),
    "scores NaN": (lambda: planned(torch.full((10,), NAN)), "scores must be finite, but 10 of 10"),
    "scores infinite": (lambda: planned(torch.full((10,), INF)), "scores must be finite, but 10 of 10"),
    "scores 2-d": (lambda: planned(torch.rand(10, 1)), r"scores must be a one-dimensional.*\(10, 1\)"),
    "step too many": (lambda: consumed(torch.rand(3)), r"scores given to step .* shape \(2,\), got shape \(3,\)"),
    "step averaged": (lambda: consumed(torch.tensor(1.0)), "scores.*reduction"),
    "steps range": (lambda: sampler().num_steps(3, 2), "last_epoch must be an integer >= 3, got 2"),
    "state": (lambda: sampler().load_state_dict({}), "state"),
    "state of another length": (lambda: sampler(data=9).load_state_dict(sampler().state_dict()), "10.*9|9.*10"),
}
ORDERINGS = {
    "no scores": (lambda: ordered(go.Descending(), None, num_examples=3), "scores must be given"),
    "no length": (lambda: ordered(go.Shuffled(), None), "num_examples must be given"),
    "length 0": (
        lambda: ordered(go.Shuffled(), None, num_examples=0),
        "num_examples must be a positive integer, got 0",
    ),
    "ordering epoch": (lambda: ordered(go.Shuffled(), None, num_examples=3, epoch=-1), "epoch must be .* -1"),
    "complex": (lambda: ordered(go.Descending(), torch.zeros(3, dtype=torch.complex64)), "scores must be .*complex64"),
    "temperature 0": (lambda: go.PlackettLuce(0.0), "temperature must be positive, got 0.0"),
    "temperature NaN": (lambda: go.PlackettLuce(NAN), "temperature must be positive, got nan"),
    "temperature text": (lambda: go.PlackettLuce("hot"), "temperature must be positive, got 'hot'"),
    "negative scores": (lambda: ordered(go.PlackettLuce(), torch.tensor([1.0, -1.0])), "scores must not be negative"),
    "unbiased text": (lambda: go.PlackettLuce(unbiased="yes"), "unbiased must be True or False, got 'yes'"),
    "unbiased and cold": (lambda: go.PlackettLuce(1e-9, unbiased=True), "temperature must be at least .* got 1e-09"),
    "every 1": (lambda: go.Revisiting(go.Descending(), 1), "every must be an integer >= 2, got 1"),
    "revisiting text": (lambda: go.Revisiting("random"), "inner must be .*'random'"),
    "block size": (lambda: go.BlockShuffled(0), "block_size must be a positive integer, got 0"),
    "ratio 1": (lambda: go.InfoBatch(10, ratio=1.0), r"ratio must be in \(0, 1\), got 1.0"),
    "complete part": (lambda: go.InfoBatch(10, complete_part=2), r"complete_part must be in \[0, 1\], got 2"),
    "info batch epochs": (lambda: go.InfoBatch(0), "epochs must be a positive integer, got 0"),
    "info batch keep": (lambda: sampler(ordering=go.InfoBatch(5), keep=0.5), "keep must not be given with InfoBatch"),
    "info batch steps": (lambda: sampler(ordering=go.InfoBatch(5)).num_steps(0, 1), "steps of epoch 0 cannot be known"),
    "balancing": (lambda: go.GradientBalancing("both"), "kind must be one of 'mean', 'pair', got 'both'"),
    "balancing keep": (lambda: sampler(ordering=go.GradientBalancing(), keep=0.5), "keep .* must not be given.*=0.5"),
    "flip-flop of text": (lambda: go.FlipFlop("random"), "inner must be .*'random'"),
}
SCHEDULES = {
    "a 0": (lambda: go.Constant(0.0), "a must be a positive finite number, got 0.0"),
    "a infinite": (lambda: go.InversePerStep(INF), "a must be a positive finite number, got inf"),
    "a text": (lambda: go.InversePerEpoch("fast"), "a must be a positive finite number, got 'fast'"),
    "scale": (lambda: go.InversePerStep(0.1, scale=-2), "scale must be a positive finite number, got -2"),
    "since": (lambda: go.InverseSqrtPerStep(0.1, since=-1), "since must be an integer >= 0, got -1"),
    "since 0.5": (lambda: go.InverseSqrtPerEpoch(0.1, since=0.5), "since must be an integer >= 0, got 0.5"),
    "factor": (lambda: go.Constant(0.1).factor(0), "steps_per_epoch must be a positive integer, got 0"),
}
SCORES = {
    "keep hardest 0": (lambda: go.KeepHardest(0.0), "keep.* 0.0"),
    "keep hardest 0 of a count": (lambda: go.KeepHardest(0), "keep.* 0"),
    "keep hardest 1.2": (lambda: go.KeepHardest(1.2), "keep.* 1.2"),
    "keep hardest text": (lambda: go.KeepHardest("half"), "keep.*'half'"),
    "losses averaged": (
        lambda: go.gradient_norms(MODEL, BATCH, lambda model, batch: model(batch[0]).mean()),
        'must give one number per example, shape .*reduction="none"',
    ),
    "losses of another length": (
        lambda: go.Loss(lambda model, batch: model(batch[0])[:2].sum(1))(MODEL, BATCH),
        r"must give one number per example, shape \(4,\), got shape \(2,\)",
    ),
    "losses no tensor": (lambda: go.Loss(lambda model, batch: [1.0] * 4)(MODEL, BATCH), "must give a tensor"),
    "scoring batch 0": (lambda: go.score_dataset(MODEL, DATA, go.Loss(), batch_size=0), "batch_size must be .* 0"),
    "scoring a stream": (lambda: go.score_dataset(MODEL, Stream(), go.Loss()), "dataset must be map-style"),
    "scoring nothing": (lambda: go.score_dataset(MODEL, TensorDataset(torch.zeros(0, 3)), go.Loss()), "dataset must"),
}
ESTIMATORS = {
    "ordering name": (lambda: regressor(ordering="down"), "ordering.*'down'"),
    "loss name": (lambda: regressor(loss="log_loss"), "loss.*'log_loss'"),
    "classifier loss": (lambda: classifier(loss="squared_error"), "loss.*'squared_error'"),
    "eta0": (lambda: regressor(eta0=-1.0), "eta0.*-1"),
    "alpha": (lambda: regressor(alpha=-1.0), "alpha.*-1"),
    "fit keep": (lambda: regressor(keep=0.0), "keep.* 0"),
    "fit batch size": (lambda: regressor(batch_size=0), "batch_size.* 0"),
    "max_iter": (lambda: classifier(max_iter=0), "max_iter.* 0"),
    "schedule": (lambda: regressor(schedule="fast"), "schedule.*'fast'"),
    "penalty": (lambda: regressor(penalty="l1"), "penalty.*'l1'"),
    "one class": (lambda: OrderedSGDClassifier().fit(X, np.zeros(6)), "class"),
    "inputs NaN": (lambda: OrderedSGDRegressor().fit(X * NAN, Y), "NaN"),
}
BOUNDS = {
    "start shape": (lambda: epoch(start=[[1.0]]), r"start must have shape \(any\), got \(1, 1\)"),
    "optimum shape": (lambda: epoch(optimum=[0.0, 0.0]), r"optimum must have shape \(1\), got \(2,\)"),
    "step size 0": (lambda: epoch(step_sizes=[0.0]), "step_sizes must be positive, got 0.0"),
    "gradients NaN": (lambda: epoch(gradients=[[NAN]]), "gradients must be finite, got nan"),
    "end elsewhere": (lambda: epoch(end=[5.0]), "end must be start minus"),
    "not convex": (lambda: epoch(values=[9.0]), "values must satisfy"),
    "curvature": (lambda: epoch(strong_convexity=-1.0), "strong_convexity must be >= 0, got -1.0"),
    "next step": (lambda: bounds.epoch_bound(epoch(), next_step_size=0), "next_step_size must be .* 0"),
}
EVERY = SAMPLER | ORDERINGS | SCHEDULES | SCORES | ESTIMATORS | BOUNDS


@pytest.mark.parametrize("name", EVERY)
def test_it_is_refused_with_a_reason(name):
    refuse, reason = EVERY[name]
    with pytest.raises((ValueError, TypeError), match=reason):
        refuse()


def test_there_are_many():
    assert len(EVERY) == sum(map(len, (SAMPLER, ORDERINGS, SCHEDULES, SCORES, ESTIMATORS, BOUNDS))) >= 80

"""Bad input is refused where it is given, by an error that names the argument, the rule and the value."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import gradorder as go

NAN, INF = float("nan"), float("inf")
MODEL = nn.Linear(3, 2)
BATCH = (torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64))
DATA = TensorDataset(*BATCH)


class Sized:
    def __len__(self):
        return 3


class Unsized(Dataset):
    def __getitem__(self, index):
        return index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def sampler(**settings):
    return go.OrderedSampler(**{"dataset_or_length": 10, "batch_size": 2, "ordering": go.Descending(), **settings})


def planned(scores, **settings):
    one = sampler(**settings)
    one.set_epoch(0, scores=scores)
    return one


def ordered(ordering, scores, **settings):
    return ordering(scores, epoch=settings.pop("epoch", 0), generator=torch.Generator(), **settings)


def consumed(scores):
    one = sampler()
    next(iter(one))
    one.step(scores)


SAMPLER = {
    "no examples": (lambda: sampler(dataset_or_length=0), "dataset_or_length.* 0"),
    "negative length": (lambda: sampler(dataset_or_length=-3), "dataset_or_length.* -3"),
    "empty data set": (lambda: sampler(dataset_or_length=[]), "dataset_or_length.*empty list"),
    "iterable data set": (lambda: sampler(dataset_or_length=Stream()), "dataset_or_length.*map-style"),
    "no data set": (lambda: sampler(dataset_or_length=Sized()), "Sized"),
    "data set without a length": (lambda: sampler(dataset_or_length=Unsized()), "Unsized"),
    "an iterator": (lambda: sampler(dataset_or_length=iter([1])), "map-style"),
    "text": (lambda: sampler(dataset_or_length="abcdef"), "str"),
    "dict of columns": (lambda: sampler(dataset_or_length={"x": torch.ones(9, 2)}), "dict"),
    "tuple of columns": (lambda: sampler(dataset_or_length=(torch.ones(9, 2), torch.ones(9))), "TensorDataset"),
    "list of columns": (lambda: sampler(dataset_or_length=[np.ones((9, 2)), np.ones(9)]), "9 rows"),
    "batch size above the length": (lambda: sampler(batch_size=11, drop_last=True), "batch_size.*10 examples"),
    "batch size above the part": (lambda: sampler(batch_size=8, drop_last=True, keep=0.5), "batch_size.*5 examples"),
    "batch size 0": (lambda: sampler(batch_size=0), "batch_size.*0"),
    "batch size 2.5": (lambda: sampler(batch_size=2.5), "batch_size.*2.5"),
    "batch size True": (lambda: sampler(batch_size=True), "batch_size.*True"),
    "keep 0": (lambda: sampler(keep=0.0), r"keep.*0.0"),
    "keep 1.5": (lambda: sampler(keep=1.5), r"keep.*1.5"),
    "keep NaN": (lambda: sampler(keep=NAN), r"keep.*nan"),
    "keep text": (lambda: sampler(keep="half"), "keep must be .*'half'"),
    "keep True": (lambda: sampler(keep=True), "keep.*True"),
    "keep of a later epoch": (lambda: sampler(keep=lambda epoch: 0.5 - epoch, start_epoch=3), r"keep\(3\).*-2.5"),
    "keep function": (lambda: planned(torch.rand(10), keep=lambda _: 2.0), "keep.* 2.0"),
    "start epoch": (lambda: sampler(start_epoch=-1), "start_epoch.*-1"),
    "seed": (lambda: sampler(seed=-1), "seed.*-1"),
    "seed text": (lambda: sampler(seed="one"), "seed.*'one'"),
    "layout": (lambda: sampler(layout="random"), "layout must be .*'random'"),
    "dealt without scores": (lambda: sampler(ordering=go.Shuffled(), layout="dealt"), "layout.*dealt"),
    "shuffled without scores": (lambda: sampler(ordering=go.Shuffled(), layout="shuffled"), "layout.*shuffled"),
    "ordering class": (lambda: sampler(ordering=go.Descending), "ordering must be .*Descending"),
    "ordering text": (lambda: sampler(ordering="descending"), "ordering must be .*'descending'"),
    "labels too few": (lambda: sampler(labels=[0, 1]), "labels must .*10.*2"),
    "labels 2-d": (lambda: sampler(labels=torch.zeros(10, 2, dtype=torch.long)), r"labels.*\(10, 2\)"),
    "labels NaN": (lambda: sampler(labels=[NAN] * 10), "labels must"),
    "replicas": (lambda: sampler(num_replicas=0, rank=0), "num_replicas.*0"),
    "rank": (lambda: sampler(num_replicas=2, rank=2), "rank.*2"),
    "indivisible": (lambda: sampler(num_replicas=4, rank=0), "batch_size.*2"),
    "epoch": (lambda: sampler().set_epoch(-1), "epoch.*-1"),
    "scores too few": (lambda: planned(torch.rand(9)), "scores.*9"),
    "scores averaged": (lambda: planned(torch.tensor(0.5)), 'scores.*reduction="none"'),
    "scores NaN": (lambda: planned(torch.full((10,), NAN)), "scores.*10 of 10"),
    "scores infinite": (lambda: planned(torch.full((10,), INF)), "scores.*10 of 10"),
    "scores 2-d": (lambda: planned(torch.rand(10, 1)), r"scores .*one-dimensional.*\(10, 1\)"),
    "step too many": (lambda: consumed(torch.rand(3)), r"step .*\(2,\).*\(3,\)"),
    "step averaged": (lambda: consumed(torch.tensor(1.0)), "scores.*reduction"),
    "steps range": (lambda: sampler().num_steps(3, 2), "last_epoch.*2"),
    "state": (lambda: sampler().load_state_dict({}), "state"),
    "state of another length": (
        lambda: sampler(dataset_or_length=9).load_state_dict(sampler().state_dict()),
        "10.*9|9.*10",
    ),
}
ORDERINGS = {
    "no scores": (lambda: ordered(go.Descending(), None, num_examples=3), "scores must be given"),
    "no length": (lambda: ordered(go.Shuffled(), None), "num_examples must be given"),
    "length 0": (lambda: ordered(go.Shuffled(), None, num_examples=0), "num_examples.*0"),
    "ordering epoch": (lambda: ordered(go.Shuffled(), None, num_examples=3, epoch=-1), "epoch must be .* -1"),
    "complex": (lambda: ordered(go.Descending(), torch.zeros(3, dtype=torch.complex64)), "scores must be .*complex64"),
    "temperature 0": (lambda: go.PlackettLuce(0.0), "temperature.*0.0"),
    "temperature NaN": (lambda: go.PlackettLuce(NAN), "temperature.*nan"),
    "temperature text": (lambda: go.PlackettLuce("hot"), "temperature.*'hot'"),
    "negative scores": (lambda: ordered(go.PlackettLuce(), torch.tensor([1.0, -1.0])), "scores must not be negative"),
    "unbiased text": (lambda: go.PlackettLuce(unbiased="yes"), "unbiased.*'yes'"),
    "unbiased and cold": (lambda: go.PlackettLuce(1e-9, unbiased=True), "temperature.*1e-09"),
    "every 1": (lambda: go.Revisiting(go.Descending(), 1), "every.*1"),
    "revisiting text": (lambda: go.Revisiting("random"), "inner must be .*'random'"),
    "floor 0": (lambda: go.Undecided(go.PlackettLuce(), 0), "floor.*0"),
    "floor text": (lambda: go.Undecided(go.PlackettLuce(), "low"), "floor.*'low'"),
    "undecided at random": (lambda: go.Undecided(go.Shuffled()), r"inner.*Shuffled\(\)"),
    "undecided around flip-flop": (
        lambda: go.Undecided(go.FlipFlop(go.PlackettLuce())),
        "inner must not carry .*FlipFlop outermost",
    ),
    "undecided text": (lambda: go.Undecided("random"), "inner must be .*'random'"),
    "negative losses": (
        lambda: ordered(go.Undecided(go.Descending()), torch.tensor([1.0, -1.0])),
        r"scores.*1 of 2.*example 1 with -1.0",
    ),
    "block size": (lambda: go.BlockShuffled(0), "block_size.*0"),
    "ratio 1": (lambda: go.InfoBatch(10, ratio=1.0), r"ratio.*1.0"),
    "complete part": (lambda: go.InfoBatch(10, complete_part=2), r"complete_part.*2"),
    "info batch epochs": (lambda: go.InfoBatch(0), "epochs.*0"),
    "info batch keep": (lambda: sampler(ordering=go.InfoBatch(5), keep=0.5), "keep must not be given with InfoBatch"),
    "info batch steps": (lambda: sampler(ordering=go.InfoBatch(5)).num_steps(0, 1), "steps of epoch 0 are not known"),
    "balancing": (lambda: go.GradientBalancing("both"), "kind.*'both'"),
    "balancing keep": (lambda: sampler(ordering=go.GradientBalancing(), keep=0.5), "keep .* must not be given.*=0.5"),
    "flip-flop of text": (lambda: go.FlipFlop("random"), "inner must be .*'random'"),
}
SCHEDULES = {
    "a 0": (lambda: go.Constant(0.0), "a.*0.0"),
    "a infinite": (lambda: go.InversePerStep(INF), "a.*inf"),
    "a text": (lambda: go.InversePerEpoch("fast"), "a.*'fast'"),
    "scale": (lambda: go.InversePerStep(0.1, scale=-2), "scale.*-2"),
    "since": (lambda: go.InverseSqrtPerStep(0.1, since=-1), "since.*-1"),
    "since 0.5": (lambda: go.InverseSqrtPerEpoch(0.1, since=0.5), "since.*0.5"),
    "factor": (lambda: go.Constant(0.1).factor(0), "steps_per_epoch.*0"),
}
SCORES = {
    "losses averaged": (
        lambda: go.gradient_norms(MODEL, BATCH, lambda model, batch: model(batch[0]).mean()),
        'must give one number per example, shape .*reduction="none"',
    ),
    "losses of another length": (
        lambda: go.Loss(lambda model, batch: model(batch[0])[:2].sum(1))(MODEL, BATCH),
        r"must give one number per example, shape \(4,\), got shape \(2,\)",
    ),
    "losses no tensor": (lambda: go.Loss(lambda model, batch: [1.0] * 4)(MODEL, BATCH), "must give a tensor"),
    "scoring nothing": (lambda: go.score_dataset(MODEL, TensorDataset(torch.zeros(0, 3)), go.Loss()), "dataset must"),
}
TEXT = {"score": "loss"}
SELECTIONS = {
    "k 0": (lambda: go.SmallestLoss(0), "k.*0"),
    "k 1.5": (lambda: go.SmallestLoss(1.5), "k.*1.5"),
    "smallest by text": (lambda: go.SmallestLoss(2, **TEXT), "score must be .*'loss'"),
    "beta 0": (lambda: go.SelectiveBackprop(0.0), "beta.*0.0"),
    "beta NaN": (lambda: go.SelectiveBackprop(NAN), "beta.*nan"),
    "history": (lambda: go.SelectiveBackprop(history=0), "history.*0"),
    "selective seed": (lambda: go.SelectiveBackprop(seed=-1), "seed.*-1"),
    "selective text": (lambda: go.SelectiveBackprop(**TEXT), "score must be .*'loss'"),
    "selective averaged": (lambda: go.SelectiveBackprop().chosen(torch.tensor(1.0)), "losses must .*reduction"),
    "selective NaN": (lambda: go.SelectiveBackprop().chosen(torch.tensor([1, NAN])), "1 of 2 are NaN"),
    "selective nothing": (lambda: go.SelectiveBackprop().chosen(torch.ones(0)), "losses must .* at least one"),
    "selective state": (lambda: go.SelectiveBackprop().load_state_dict({}), "state must .*'num_draws'"),
    "longer history": (
        lambda: go.SelectiveBackprop(history=2).load_state_dict({"num_draws": 0, "history": torch.ones(3)}),
        "history of state must be a tensor of at most 2",
    ),
    "NaN history": (
        lambda: go.SelectiveBackprop().load_state_dict({"num_draws": 0, "history": torch.full((2,), NAN)}),
        "history of state must be finite",
    ),
    "top of 0": (lambda: go.TopLosses(0), "batch_size.*0"),
    "top by text": (lambda: go.TopLosses(8, **TEXT), "score must be .*'loss'"),
    "thresholds": (lambda: go.TopLosses(8, thresholds=(80, 90, 95, 99.5)), "thresholds must be .*80"),
    "thresholds fall": (lambda: go.TopLosses(8, thresholds=(0.9, 0.8, 0.95, 1)), "thresholds must be increasing"),
    "thresholds NaN": (lambda: go.TopLosses(8, thresholds=(NAN,), fractions=(1, 1)), "thresholds must be .*nan"),
    "fractions too few": (lambda: go.TopLosses(8, fractions=(1.0, 0.5)), "fractions must .*got 2"),
    "fraction 0": (lambda: go.TopLosses(8, thresholds=(0.8,), fractions=(1, 0)), r"fractions .*\(0, 1\], got 0"),
    "fractions grow": (lambda: go.TopLosses(8, thresholds=(0.8,), fractions=(0.5, 1)), "fractions must not increase"),
    "accuracy 85": (lambda: go.TopLosses(8).observe(85), r"accuracy.*85"),
    "accuracy NaN": (lambda: go.TopLosses(8).observe(NAN), "accuracy must be .* nan"),
    "accuracy uncounted": (lambda: go.TopLosses(8).observe(), "accuracy must be given"),
    "top averaged": (lambda: go.TopLosses(8).mean(torch.tensor(1.0)), "losses must .*reduction"),
    "top of pairs": (lambda: go.TopLosses(8).mean(torch.ones(2, 2)), r"losses must .*\(2, 2\)"),
    "correct too few": (lambda: go.TopLosses(8).mean(torch.ones(3), correct=torch.ones(2) > 0), "correct .*2"),
    "correct a number": (lambda: go.TopLosses(8).mean(torch.ones(3), correct=torch.ones(3)), "correct .*float32"),
    "top state": (lambda: go.TopLosses(8).load_state_dict({"num_passed": 1}), "state must .*'num_correct'"),
    "top state too far": (
        lambda: go.TopLosses(8).load_state_dict({"num_passed": 5, "num_correct": 0, "num_counted": 0}),
        "state.*5",
    ),
    "top state too good": (
        lambda: go.TopLosses(8).load_state_dict({"num_passed": 0, "num_correct": 2, "num_counted": 1}),
        "state.*2",
    ),
    "draw 0": (lambda: go.ImportanceSampling(0), "batch_size.*0"),
    "draw by text": (lambda: go.ImportanceSampling(2, **TEXT), "score must be .*'loss'"),
    "smoothing 1": (lambda: go.ImportanceSampling(2, smoothing=1), r"smoothing.*1"),
    "smoothing NaN": (lambda: go.ImportanceSampling(2, smoothing=NAN), "smoothing must be .* nan"),
    "probe_every": (lambda: go.ImportanceSampling(2, probe_every=0), "probe_every.*0"),
    "importance seed": (lambda: go.ImportanceSampling(2, seed=0.5), "seed.*0.5"),
    "drawn without weights": (lambda: go.ImportanceSampling(2)(MODEL, BATCH), "biased without its weights"),
    "importance negative": (
        lambda: go.ImportanceSampling(2).observe(torch.tensor([1.0, -2.0])),
        "scores must not be negative .* 1 of 2 .*example 1 with -2",
    ),
    "importance NaN": (lambda: go.ImportanceSampling(2).observe(torch.tensor([1.0, NAN])), "1 of 2 are NaN"),
    "importance infinite": (lambda: go.ImportanceSampling(2).observe(torch.tensor([1.0, INF])), "1 of 2 are NaN"),
    "importance averaged": (lambda: go.ImportanceSampling(2).observe(torch.tensor(1.0)), "scores must .*scalar"),
    "importance state": (lambda: go.ImportanceSampling(2).load_state_dict({"tau": NAN}), "tau of state must be .*nan"),
    "empty batch": (lambda: go.KeepHardest(0.5)(MODEL, (BATCH[0][:0], BATCH[1][:0])), "batch must .* at least one"),
}
ADVISER = {
    "advice on a stream": (lambda: go.advise(MODEL, Stream()), "dataset must be map-style"),
    "advice on nothing": (lambda: go.advise(MODEL, TensorDataset(torch.zeros(0, 3))), "dataset must"),
    "advice batch size": (lambda: go.advise(MODEL, DATA, batch_size=0), "batch_size must be .* 0"),
    "advice sample": (lambda: go.advise(MODEL, DATA, num_examples=0), "num_examples must be .* 0"),
    "advice seed": (lambda: go.advise(MODEL, DATA, seed=-1), "seed must be an integer >= 0, got -1"),
    "advice losses": (lambda: go.advise(MODEL, DATA, losses=lambda m, b: m(b[0]).mean()), "losses must .*reduction"),
}


EVERY = SAMPLER | ORDERINGS | SCHEDULES | SCORES | SELECTIONS | ADVISER


@pytest.mark.parametrize("name", EVERY)
def test_it_is_refused_with_a_reason(name):
    refuse, reason = EVERY[name]
    with pytest.raises((ValueError, TypeError), match=reason):
        refuse()

"""Several real processes: the batches, scores, states and errors are those of one."""

import math
import re
from dataclasses import dataclass
from functools import cache

import processes
import pytest
import torch
import torch.distributed as dist
from accelerator import OnAccelerator
from torch import nn
from torch.utils.data import BatchSampler, TensorDataset

import gradorder as go
from gradorder.ranks import Ranks, exchange_device

pytestmark = pytest.mark.slow

SIZE, BATCH, EPOCHS = 52, 12, 3  # the last batch has 4 examples: an uneven slice for 3 processes
LABELS = [i % 3 for i in range(SIZE)]
WORLDS = [1, 2, 3, 4]


@dataclass(frozen=True)
class Draws(go.Ordering):
    """With replacement: one example may be scored by two processes in one epoch."""

    needs_scores = True

    def order(self, request):
        drawn = request.scores.multinomial(request.num_examples, replacement=True, generator=request.generator)
        return go.Order(drawn, repeats=True)


SETTINGS = {
    "sorted": {},
    "kept": {"keep": 0.6},
    "shuffled": {"ordering": go.Shuffled()},
    "drawn": {"ordering": go.PlackettLuce(), "keep": 0.5, "start_epoch": 1, "drop_last": True},
    "flip-flop": {"ordering": go.FlipFlop(go.Descending()), "keep": 0.6},
    "balanced": {"labels": LABELS, "keep": lambda epoch: 1 / (1 + 0.1 * epoch), "drop_last": True},
    "dealt": {"layout": "dealt"},
    "pruned": {"ordering": go.InfoBatch(EPOCHS), "drop_last": True},
    "blocks": {"ordering": go.BlockShuffled(5)},
    "uniform draws": {"ordering": go.WithReplacement()},
    "revisiting": {"ordering": go.Revisiting(go.PlackettLuce(unbiased=True)), "keep": 0.6},
    "weighted": {"ordering": go.PlackettLuce(unbiased=True), "keep": 0.6},
    "shuffled layout": {"layout": "shuffled", "keep": 0.6},
    "with replacement": {"ordering": Draws()},
}
every_setting = pytest.mark.parametrize("settings", SETTINGS)
every_world = pytest.mark.parametrize("world", WORLDS)


def score(moment, batch):
    """A stand-in for a loss that changes as training goes on."""
    return torch.tensor([math.sin(7 * i + moment) + 2 for i in batch], dtype=torch.float64)


def batches(sampler):
    return BatchSampler(sampler, sampler.loader_batch_size, drop_last=False)


def train(sampler, first_epoch=0, *, keeps_states=False):
    """The slices that this process trains on, epoch after epoch, and the states after every step."""
    slices, states, moment = [], [], 0
    for epoch in range(first_epoch, EPOCHS):
        sampler.set_epoch(epoch)
        for batch in batches(sampler):
            slices.append((epoch, batch))
            moment = epoch + sampler._position.steps / 10
            sampler.step(score(moment, batch))
            if keeps_states:
                states.append(sampler.state_dict())
    return slices, states


def put_together(ranks):
    """The global batches out of the slices of all ranks."""
    return [(parts[0][0], sum((batch for _, batch in parts), [])) for parts in zip(*ranks, strict=True)]


# ------------------------------------------------------------------------------------------------ batches


def slices_of_every_setting():
    return {name: train(new(**settings))[0] for name, settings in SETTINGS.items()}


@cache
def global_batches(world):
    ranks = processes.run(slices_of_every_setting, world)
    return {name: put_together([rank[name] for rank in ranks]) for name in SETTINGS}


@every_setting
@pytest.mark.parametrize("world", WORLDS[1:])
def test_the_global_batches_do_not_depend_on_the_number_of_processes(settings, world):
    expected = global_batches(1)[settings]
    assert global_batches(world)[settings] == expected
    if settings == "sorted":
        assert [len(batch) for _, batch in expected] == [12, 12, 12, 12, 4] * EPOCHS
        assert all(
            sorted(sum((b for e, b in expected if e == epoch), [])) == list(range(SIZE)) for epoch in range(EPOCHS)
        )


# ------------------------------------------------------------------------------------------------ scores


class Counted:
    def __init__(self):
        self.seen = []

    def __call__(self, model, batch):
        self.seen.append(len(batch[0]))
        return go.GradientNorm()(model, batch)


def scores_of_data_sets():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    wrapped = nn.parallel.DistributedDataParallel(model)
    results = {}
    for size in (1, 7, 23, 64):
        data = TensorDataset(torch.randn(size, 4), torch.arange(size) % 3)
        counted = Counted()
        results[size] = go.score_dataset(model, data, counted, batch_size=5), counted.seen
        assert torch.equal(go.score_dataset(wrapped, data, go.GradientNorm(), batch_size=5), results[size][0])
    double = go.score_dataset(nn.Identity(), torch.arange(9).double() / 7, lambda _, batch: batch, batch_size=2)
    return results, double


@cache
def scores_in_world(world):
    return processes.run(scores_of_data_sets, world)


@every_world
def test_scoring_is_shared_and_its_numbers_do_not_depend_on_the_number_of_processes(world):
    ((expected, expected_double),) = scores_in_world(1)
    for rank, (results, double) in enumerate(scores_in_world(world)):
        assert torch.equal(double, expected_double)
        assert double.dtype == torch.float64
        for size, (scores, seen) in results.items():
            assert torch.equal(scores, expected[size][0])  # to the bit: the batches are the same
            assert seen == expected[size][1][rank::world]


def test_large_indices_travel_whole():
    for indices, scores in processes.run(gather_large, 2):
        assert indices.tolist() == [2**24 + 1, 2**24 + 1, 2**53 + 1, 2**53 + 1, 2**53 + 1]
        assert scores.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
        assert scores.dtype == torch.float64  # the widest of all


def gather_large():
    rank = dist.get_rank()
    indices = torch.full((2 + rank,), [2**24 + 1, 2**53 + 1][rank])
    return Ranks.of_process_group().gathered(
        indices, torch.full((2 + rank,), rank, dtype=[torch.float32, torch.float64][rank])
    )


def test_steps_exchange_nothing_and_an_epoch_a_handful():
    for during_steps, per_epoch in processes.run(count_exchanges, 2):
        assert during_steps == 0
        assert per_epoch <= 6


def count_exchanges():
    calls = []
    real = dist.all_gather
    dist.all_gather = lambda *args, **kwargs: (calls.append(1), real(*args, **kwargs))
    sampler = go.OrderedSampler(SIZE, BATCH, ordering=go.Descending())
    train(sampler)
    calls.clear()
    sampler.set_epoch(EPOCHS)
    per_epoch = len(calls)
    calls.clear()
    for batch in batches(sampler):
        sampler.step(score(0, batch))
    return len(calls), per_epoch


# ------------------------------------------------------------------------------------------------ state

RESUMED = ["kept", "drawn", "flip-flop", "with replacement", "weighted", "pruned"]


def states_after_every_step():
    return {name: train(new(**SETTINGS[name]), keeps_states=True)[1] for name in RESUMED}


def tails(states):
    """What is trained on after each of the states."""
    results = {}
    for name in RESUMED:
        results[name] = []
        for state in states[name]:
            sampler = new(**SETTINGS[name])
            sampler.load_state_dict(state)
            results[name].append(train(sampler, sampler.epoch)[0])
    return results


@cache
def states_in_world(world):
    return processes.run(states_after_every_step, world)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (4, 2)])
def test_a_state_of_any_step_goes_on_with_the_batches_that_were_left(before, after):
    states = states_in_world(before)[0]
    ranks = processes.run(tails, after, states)
    for name in RESUMED:
        straight = global_batches(1)[name]
        assert len(states[name]) == len(straight)
        for step in range(len(straight)):
            resumed = put_together([rank[name][step] for rank in ranks])
            assert resumed == straight[step + 1 :], f"{name} stopped after step {step}"


def test_the_state_is_the_same_on_every_process_and_for_any_number_of_them():
    (expected,) = states_in_world(1)
    for world in (2, 4):
        for states in states_in_world(world):
            for name in RESUMED:
                for state, other in zip(states[name], expected[name], strict=True):
                    assert state.keys() == other.keys()
                    for key in state:
                        torch.testing.assert_close(state[key], other[key], rtol=0, atol=0, equal_nan=True)


# ------------------------------------------------------------------------------------------------ errors


def error_of(action, *arguments):
    try:
        action(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
        return type(error).__name__, str(error)
    return None


def new(**settings):
    return go.OrderedSampler(SIZE, BATCH, **{"ordering": go.Descending(), **settings})


def no_tensor(rank, at):
    """A score that fails on one process."""
    return lambda model, batch: "no tensor" if rank == at else batch


def step(sampler, num_steps, losses=None):
    iterator = iter(batches(sampler))
    for _ in range(num_steps):
        next(iterator)
        sampler.step(losses)
    return sampler


def loaded(sampler, turn):
    state = sampler.state_dict()
    sampler.load_state_dict({**state, "sequence": state["sequence"].roll(turn)})
    return sampler


def without_group(sampler):
    dist.destroy_process_group()
    return sampler


MISTAKES = {
    "different scores": (
        lambda rank: new().set_epoch(0, scores=torch.arange(SIZE) * (1.0 - 2 * rank)),
        "RankError RankError", "order of epoch 0",
    ),
    "fails on one": (
        lambda rank: new().set_epoch(0, scores=lambda: torch.rand(SIZE) if rank == 0 else 1 / 0),
        "RankError ZeroDivisionError", "rank 1",
    ),
    "NaN on one": (
        lambda rank: new().set_epoch(0, scores=torch.full((SIZE,), math.nan if rank else 1.0)),
        "RankError NonFiniteScoresError", "rank 1",
    ),
    "score fails on one": (
        lambda rank: go.score_dataset(nn.Identity(), torch.rand(9), no_tensor(rank, 1), batch_size=2),
        "RankError TypeError", "score_dataset.*rank 1",
    ),
    "score fails while an epoch is planned": (
        lambda rank: new().set_epoch(
            0, scores=lambda: go.score_dataset(nn.Identity(), torch.rand(SIZE), no_tensor(rank, 1), batch_size=9)
        ),
        "RankError TypeError", "score_dataset.*rank 1",
    ),
    "different data": (
        lambda rank: go.score_dataset(nn.Identity(), torch.rand(9 + rank), lambda _, batch: batch),
        "RankError RankError", "10 on rank 1",
    ),
    "different epochs": (lambda rank: new().set_epoch(1 + rank), "RankError RankError", "2 on rank 1"),
    "different seeds": (lambda rank: new(seed=rank).set_epoch(0), "RankError RankError", "order is"),
    "scores on one": (
        lambda rank: new().set_epoch(0, scores=None if rank else torch.rand(SIZE)),
        "RankError RankError", "set_epoch",
    ),
    "states of different steps": (
        lambda rank: step(new(), 1 + rank).state_dict(), "RankError RankError", "2 on rank 1",
    ),
    "different states": (lambda rank: loaded(new(), rank).set_epoch(0), "RankError RankError", "order is"),
    "NaN on the accelerator of one": (
        lambda rank: step(
            new(), 1, torch.full((BATCH // 2,), math.nan if rank else 1.0).as_subclass(OnAccelerator)
        ).set_epoch(1),
        "NonFiniteScoresError NonFiniteScoresError", "6 of 12",
    ),
    "group gone": (lambda rank: without_group(new()).set_epoch(0), "RuntimeError RuntimeError", "2 processes"),
}  # fmt: skip


def mistakes():
    return {name: error_of(action, dist.get_rank()) for name, (action, _, _) in MISTAKES.items()}


@cache
def errors_of_two():
    return processes.run(mistakes, 2)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_raises_on_every_process(mistake):
    _, types, message = MISTAKES[mistake]
    errors = [rank[mistake] for rank in errors_of_two()]
    assert [error and error[0] for error in errors] == types.split()
    assert re.search(message, errors[0][1])


def test_tensors_travel_where_the_backend_takes_them():
    assert exchange_device("cpu:gloo,cuda:nccl").type == "cpu"
    assert exchange_device("gloo:gloo,cpu:gloo").type == "cpu"
    with pytest.raises((AssertionError, RuntimeError)):  # the accelerator's, and there is none here
        exchange_device("cuda:nccl")

"""What the sampler tells of every example, against a list of all visits; over processes, resumed, and what it costs."""

import math
from dataclasses import fields
from functools import cache
from itertools import pairwise

import numpy as np
import processes
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import gradorder as go
from gradorder.diagnostics.history import History, Recorder
from gradorder.ranks import Ranks

SIZE, BATCH, EPOCHS = 22, 4, 5
ALONE = Ranks(num=1, rank=0, is_connected=False)
NONE = torch.empty(0, dtype=torch.int64)


def settle(history):
    history.gather()
    history.settle(NONE)


def told(visits):
    """The same from a list of (epoch, example, loss, margin), one example at a time."""
    columns = History.empty(SIZE)
    for example in range(SIZE):
        own = [visit for visit in visits if visit[1] == example]
        learned = [loss < math.log(2) if margin is None else margin > 0 for _, _, loss, margin in own]
        margins = [margin for *_, margin in own if margin is not None]
        columns.visits[example] = len(own)
        columns.margin_visits[example] = len(margins)
        columns.times_forgotten[example] = sum(a and not b for a, b in pairwise(learned))
        if True in learned:
            columns.first_learned[example] = own[learned.index(True)][0]
        if own:
            columns.is_learned[example] = learned[-1]
            columns.last_loss[example] = own[-1][2]
            columns.mean_loss[example] = sum(loss for _, _, loss, _ in own) / len(own)
        if margins:
            columns.area_under_margin[example] = sum(margins) / len(margins)
    return columns


def assert_same(columns, expected):
    for each in fields(History):
        actual, wanted = getattr(columns, each.name), getattr(expected, each.name)
        torch.testing.assert_close(actual, wanted, equal_nan=True, rtol=1e-5, atol=1e-6, msg=each.name)


numbers = st.floats(-2, 2, width=32)
batches = st.lists(st.tuples(st.integers(0, SIZE - 1), st.floats(0, 2, width=32), numbers), min_size=1, max_size=6)


@given(st.lists(st.tuples(batches, st.booleans(), st.booleans()), max_size=12))
def test_it_says_what_a_list_of_all_visits_says(steps):
    """Examples may come twice in a batch, and several times before anything is written down."""
    history, visits = Recorder(SIZE, ALONE), []
    for epoch, (batch, has_margins, settles) in enumerate(steps):
        examples, losses, margins = (torch.tensor(each) for each in zip(*batch, strict=True))
        history.note(epoch, examples.numpy(), losses, margins if has_margins else None)
        visits += [(epoch, example, loss, margin if has_margins else None) for example, loss, margin in batch]
        if settles:
            settle(history)
    assert_same(history.columns(without=NONE), told(visits))


def new_sampler(**settings):
    settings = {"ordering": go.PlackettLuce(), "keep": 0.7, "start_epoch": 1, "seed": 3, **settings}
    sampler = go.OrderedSampler(SIZE, BATCH, **settings)
    sampler.record_history()
    return sampler


def loss_of(epoch, example):
    return 1.5 * math.sin(3.0 * epoch + example) ** 2


def train(sampler, epochs, *, stop=None):
    """What every step was told, as visits."""
    visits = []
    for epoch in epochs:
        sampler.set_epoch(epoch)
        for examples in sampler.loader(range(SIZE)):
            losses = torch.tensor([loss_of(epoch, int(example)) for example in examples])
            sampler.step(losses, margins=0.5 - losses if epoch % 2 else None)
            visits += [
                (epoch, int(i), loss, 0.5 - loss if epoch % 2 else None)
                for i, loss in zip(examples, losses.tolist(), strict=True)
            ]
            if (epoch, sampler.steps_left) == stop:
                return visits
    return visits


def test_a_run_with_and_without_margins():
    sampler = new_sampler()
    visits = train(sampler, range(EPOCHS))
    assert len({epoch for epoch, *_ in visits}) == EPOCHS
    assert_same(sampler.history, told(visits))
    assert sampler.history.times_forgotten.sum() > 0
    assert (sampler.history.first_learned > 0).any()


@pytest.mark.parametrize("stop", [(0, 2), (2, 0), (2, 3)])
def test_a_resumed_run_tells_the_same(tmp_path, stop):
    straight = new_sampler()
    train(straight, range(EPOCHS))
    first = new_sampler()
    train(first, range(EPOCHS), stop=stop)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    resumed = go.OrderedSampler(SIZE, BATCH, ordering=go.PlackettLuce(), keep=0.7, start_epoch=1, seed=3)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))  # it brings its history
    train(resumed, range(stop[0] + (stop[1] == 0), EPOCHS))
    assert_same(resumed.history, straight.history)


def test_a_state_without_history_starts_it_afresh():
    other = go.OrderedSampler(SIZE, BATCH, ordering=go.PlackettLuce(), keep=0.7, start_epoch=1, seed=3)
    sampler = new_sampler()
    train(sampler, range(1))
    sampler.load_state_dict(other.state_dict())
    assert sampler.history.visits.sum() == 0


def test_a_state_of_another_size_is_refused():
    sampler = new_sampler()
    state = sampler.state_dict()
    state["history_mean_loss"] = torch.zeros(3)
    with pytest.raises(ValueError, match=r"state.*\(3,\)"):
        sampler.load_state_dict(state)


def on_two_processes():
    sampler = new_sampler()
    train(sampler, range(EPOCHS))
    sampler.state_dict()
    return sampler.history, dist.get_rank()


@cache
def two_processes():
    return processes.run(on_two_processes, 2)


@pytest.mark.slow
def test_two_processes_tell_what_one_tells():
    sampler = new_sampler()
    train(sampler, range(EPOCHS))
    for columns, _ in two_processes():
        assert_same(columns, sampler.history)


def test_scores_that_may_be_anothers_are_not_noted():
    sampler = new_sampler()
    sampler.set_epoch(0)
    loader = DataLoader(range(SIZE), BATCH, sampler=sampler, num_workers=1)
    for number, _ in enumerate(loader):
        if number != len(loader) - 2:
            sampler.step(torch.zeros(len(sampler.weights)))
    assert sampler.history.visits.sum() == 0  # nor before the next epoch: this may have been the last
    with pytest.warns(UserWarning, match="step was called"):
        sampler.set_epoch(1)
    assert sampler.history.visits.sum() == 0


@pytest.mark.parametrize("resumes", [False, True])
def test_a_missing_step_drops_the_visits_of_the_epoch_also_after_a_checkpoint(resumes):
    sampler = new_sampler()
    train(sampler, range(1))
    sampler.set_epoch(1)
    num_batches = sampler.steps_left
    iterator = iter(sampler.loader(range(SIZE)))
    next(iterator)
    for _ in range(2):
        next(iterator)
        sampler.step(torch.zeros(BATCH))
    assert sampler.history.visits.sum() == SIZE
    state = sampler.state_dict()
    assert state["history_visits"].sum() == SIZE
    assert len(state["history_waiting"]) == 2 * BATCH
    if resumes:
        sampler = new_sampler()
        sampler.load_state_dict(state)
        iterator = iter(sampler.loader(range(SIZE)))
        next(iterator)
        num_batches -= 1  # the batch without a step is lost again
    for batch in iterator:
        sampler.step(torch.zeros(len(batch)))
    with pytest.warns(UserWarning, match="step was called"):
        sampler.set_epoch(2)
    assert sampler.history.visits.sum() == SIZE


def test_recording_again_keeps_what_was_recorded():
    sampler = new_sampler()
    train(sampler, range(1))
    sampler.record_history()
    assert sampler.history.visits.sum() == SIZE
    with pytest.raises(ValueError, match=r"learned_below.*0\.69"):
        sampler.record_history(2.0)
    resumed = go.OrderedSampler(SIZE, BATCH, ordering=go.PlackettLuce(), keep=0.7, start_epoch=1, seed=3)
    resumed.load_state_dict(sampler.state_dict())
    resumed.record_history()
    assert resumed.history.visits.sum() == SIZE


def test_a_mean_with_an_infinite_margin_is_infinite():
    """As logits that are masked give it."""
    history = Recorder(3, ALONE)
    for margins in ([math.inf, 1.0, 1.0], [math.inf, 2.0, math.inf], [1.0, 3.0, 1.0]):
        history.note(0, np.arange(3), torch.zeros(3), torch.tensor(margins))
        settle(history)
    assert history.columns(without=NONE).area_under_margin.tolist() == [math.inf, 2.0, math.inf]


def test_bad_margins_are_refused_before_anything_is_remembered():
    sampler = new_sampler()
    next(iter(sampler))
    with pytest.raises(ValueError, match=r"margins.*\(4,\).*\(3,\)"):
        sampler.step(torch.zeros(BATCH), margins=torch.zeros(3))
    assert "remembered_scores" not in sampler.state_dict()


def test_off_unless_asked_for():
    sampler = go.OrderedSampler(SIZE, BATCH, ordering=go.Shuffled())
    next(iter(sampler))
    assert sampler.history is None
    assert not [name for name in sampler.state_dict() if "history" in name]
    with pytest.raises(ValueError, match=r"margins.*history"):
        sampler.step(torch.zeros(BATCH), margins=torch.zeros(BATCH))


def test_the_bound_is_checked_and_used():
    with pytest.raises(ValueError, match=r"learned_below.*0"):
        go.OrderedSampler(SIZE, ordering=go.Shuffled()).record_history(0)
    sampler = go.OrderedSampler(2, 2, ordering=go.Sequential())
    sampler.record_history(learned_below=3.0)
    next(iter(sampler))
    sampler.step(torch.tensor([2.9, 3.1]))
    assert sampler.history.first_learned.tolist() == [0, -1]


def test_margins_lead_or_trail():
    logits = torch.tensor([[1.0, 4.0, 2.0], [1.0, 4.0, 2.0]])
    assert go.margins(logits, torch.tensor([1, 2])).tolist() == [2.0, -2.0]
    with pytest.raises(ValueError, match=r"targets"):
        go.margins(logits, torch.tensor([[1], [2]]))

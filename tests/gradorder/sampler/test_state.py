"""A run stopped after any step and resumed sees exactly the batches it would have seen."""

import math

import numpy as np
import pytest
import torch
from addresses import without_address
from states import saved_and_loaded
from torch.utils.data import BatchSampler

import gradorder as go
from gradorder.sampler import compact

SIZE, BATCH, EPOCHS = 22, 4, 4
LABELS = [i % 3 for i in range(SIZE)]

SETTINGS = [
    {},
    {"keep": 0.6},
    {"ordering": go.Shuffled()},
    {"ordering": go.PlackettLuce(), "keep": 0.5, "start_epoch": 1},
    {"ordering": go.FlipFlop(go.Descending()), "keep": 0.5},
    {"ordering": go.FlipFlop(go.PlackettLuce()), "labels": LABELS},
    {"labels": LABELS, "keep": lambda epoch: 1 / (1 + epoch)},
    {"layout": "dealt", "drop_last": True},
    {"ordering": go.InfoBatch(EPOCHS, complete_part=0.25), "labels": LABELS},
    {"ordering": go.FlipFlop(go.InfoBatch(EPOCHS, complete_part=0.0))},
    {"ordering": go.WithReplacement()},
    {"ordering": go.FlipFlop(go.BlockShuffled(5)), "labels": LABELS},
    {"ordering": go.Revisiting(go.Descending(), every=4), "keep": 0.3, "labels": LABELS},
    {"ordering": go.PlackettLuce(unbiased=True), "keep": 0.5, "labels": LABELS},
    {"layout": "shuffled", "keep": 0.6, "ordering": go.FlipFlop(go.PlackettLuce())},
]
every_setting = pytest.mark.parametrize("settings", SETTINGS, ids=without_address)
# Where losses come from `step` the first epoch has none; that it is said is tested elsewhere.
may_lack_scores = pytest.mark.filterwarnings("ignore:epoch [0-3] is random and complete")


def score(epoch, batch):
    """A stand-in for a loss that changes as training goes on."""
    return torch.tensor([math.sin(7 * i + epoch) + 2 for i in batch])


def given_scores(epoch):
    return score(epoch + 0.5, range(SIZE))


def run(sampler, *, uses_step=True, gives_scores=False, stop_after=None):
    """The batches that training consumed, and the state after each of them."""
    seen, states = [], []
    for epoch in range(sampler.epoch, EPOCHS):
        sampler.set_epoch(epoch, scores=(lambda epoch=epoch: given_scores(epoch)) if gives_scores else None)
        for batch in BatchSampler(sampler, sampler.loader_batch_size, drop_last=False):
            seen.append((epoch, tuple(batch)))
            if uses_step:
                sampler.step(None if gives_scores else score(epoch, batch))
            states.append(sampler.state_dict())
            if len(seen) == stop_after:
                return seen, states
    return seen, states


@every_setting
@may_lack_scores
@pytest.mark.parametrize(("gives_scores", "uses_step"), [(True, True), (False, True), (True, False)])
def test_resuming_after_any_step(settings, gives_scores, uses_step):
    straight, states = run(new(settings), gives_scores=gives_scores, uses_step=uses_step)
    for num_steps, state in enumerate(states, 1):
        resumed = new(settings)
        resumed.load_state_dict(saved_and_loaded(state))
        rest, _ = run(resumed, gives_scores=gives_scores, uses_step=uses_step)
        assert rest == straight[num_steps:], f"stopped after {num_steps} steps"


def new(settings):
    return go.OrderedSampler(SIZE, BATCH, **{"ordering": go.Descending(), **settings})


@every_setting
@may_lack_scores
def test_the_state_is_plain_tensors_and_numbers(settings):
    _, (*_, state) = run(new(settings))
    assert all(isinstance(value, torch.Tensor | int | float | bool) for value in state.values())


def test_a_state_is_a_copy():
    sampler = new({})
    sampler.set_epoch(0, scores=given_scores(0))
    state = sampler.state_dict()
    before = {key: torch.as_tensor(value).clone() for key, value in state.items()}
    run(sampler)
    assert all(torch.equal(torch.as_tensor(state[key]), before[key]) for key in state)
    other = new({})
    other.load_state_dict(state)
    run(other)
    assert all(torch.equal(torch.as_tensor(state[key]), before[key]) for key in state)


def test_only_the_first_iteration_after_loading_starts_in_the_middle():
    sampler = new({"ordering": go.Shuffled()})
    whole = list(sampler)
    _, (*_, state) = run(sampler, stop_after=2)
    resumed = new({"ordering": go.Shuffled()})
    resumed.load_state_dict(state)
    assert len(resumed) == SIZE
    assert list(resumed) == whole[2 * BATCH :]
    assert list(resumed) == whole


def test_a_finished_epoch_resumes_empty():
    sampler = new({})
    _, (*_, state) = run(sampler)
    resumed = new({})
    resumed.load_state_dict(state)
    assert resumed.epoch == EPOCHS - 1
    assert list(resumed) == []


def test_setting_the_loaded_epoch_keeps_the_place_and_another_epoch_drops_it():
    _, (*_, state) = run(new({}), stop_after=2)
    resumed = new({})
    resumed.load_state_dict(state)
    resumed.set_epoch(0)
    resumed.set_epoch(0, scores=lambda: pytest.fail("the epoch is under way"))
    assert len(list(resumed)) == SIZE - 2 * BATCH
    resumed.load_state_dict(state)
    resumed.set_epoch(1)
    assert len(list(resumed)) == SIZE


def test_a_framework_that_starts_from_epoch_0_after_a_resume_is_refused():
    sampler = new({})
    sampler.set_epoch(3)
    state = sampler.state_dict()
    resumed = new({})
    resumed.load_state_dict(state)
    with pytest.raises(ValueError, match=r"epoch.*3.*load_state_dict.*0"):
        resumed.set_epoch(0)


def test_resumed_steps_go_on_counting():
    _, (*_, state) = run(new({}), stop_after=2)
    resumed = new({})
    resumed.load_state_dict(state)
    next(iter(resumed))
    resumed.step()
    assert resumed.state_dict()["consumed"] == 3
    with pytest.raises(go.StepError, match="3 batches"):
        resumed.step()


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"num_examples": 23}, "num_examples=22.*23"), ({"batch_size": 5}, "batch_size=4.*5"), ({"seed": 1}, "seed=0.*1")],
)
def test_a_state_of_another_sampler_is_refused(changed, message):
    size, settings = changed.pop("num_examples", SIZE), {"batch_size": BATCH, **changed}
    with pytest.raises(ValueError, match=message):
        go.OrderedSampler(size, ordering=go.Descending(), **settings).load_state_dict(new({}).state_dict())


@pytest.mark.parametrize("missing", ["version", "sequence"])
def test_a_state_without_a_field_is_refused(missing):
    state = new({}).state_dict()
    del state[missing]
    with pytest.raises(ValueError, match=f"'{missing}'"):
        new({}).load_state_dict(state)


@pytest.mark.parametrize("name", ["sequence", "planned_epochs", "remembered_scores", "history_visits"])
def test_a_state_that_went_through_json_is_refused(name):
    sampler = new({})
    sampler.record_history()
    run(sampler)
    state = sampler.state_dict()
    state[name] = state[name].tolist()
    with pytest.raises(ValueError, match=f"{name}.*JSON"):
        new({}).load_state_dict(state)


BAD = {
    "version": [0],
    "epoch": [-1, 1.5, True],
    "consumed": [-1, 1.5, 7],
    "is_stepped": [1],
    "sequence": [
        torch.zeros(22, dtype=torch.int64),
        torch.arange(22).reshape(2, 11),
        torch.arange(22.0),
        torch.tensor([22]),
        torch.tensor([]),
    ],
    "planned_epochs": [torch.tensor([[0, -1, 5]]), torch.tensor([0, 6]), torch.tensor([[0.0, 6.0, 5.0]])],
    "worth": [-1.0, float("nan"), "much"],
    "gradients": [-1.0, float("inf")],
    "is_run": [1, "yes"],
    "remembered_scores": [
        torch.ones(3),
        torch.full((22,), math.inf),
        torch.zeros(22, dtype=torch.int64),
        torch.zeros(22, 1),
    ],
    "weights": [torch.full((22,), math.nan), -torch.ones(22), torch.ones(21)],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values], ids=str
)
def test_every_field_of_a_state_is_validated(name, value):
    sampler = new({})
    _, (*_, state) = run(sampler, stop_after=2)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match="state"):
        sampler.load_state_dict({**state, name: value})
    after = sampler.state_dict()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[key], after[key], equal_nan=True) for key in before)


@pytest.mark.parametrize("indices", [torch.zeros(6, dtype=torch.int64), torch.tensor([22]), torch.arange(6.0)], ids=str)
def test_the_order_that_flip_flop_replays_is_validated(indices):
    settings = {"ordering": go.FlipFlop(go.Descending())}
    sampler = new(settings)
    sampler.set_epoch(0, scores=given_scores(0))
    with pytest.raises(ValueError, match="FlipFlop"):
        new(settings).load_state_dict({**sampler.state_dict(), "carried_indices": indices})


# Large sequences ------------------------------------------------------------------------------------------------------

DRAWN = [
    {"ordering": go.Shuffled()},
    {"ordering": go.Shuffled(), "labels": LABELS, "drop_last": True},
    {"ordering": go.Unlearned(), "start_epoch": 1},
    {"ordering": go.Unlearned(), "start_epoch": 1, "labels": LABELS},
]


def fitted(epoch, batch):
    return torch.tensor([2.0 if i % 3 == 0 else 0.01 for i in batch]) + 0.0 * epoch


@pytest.mark.parametrize("settings", [*SETTINGS, *DRAWN], ids=without_address)
@may_lack_scores
def test_a_large_sequence_is_drawn_again(settings, monkeypatch):
    """Or saved, if the seed and the visited examples do not determine it."""
    monkeypatch.setattr(compact, "LARGE", 0)
    straight, states = run(new(settings))
    for num_steps, state in enumerate(states, 1):
        assert ("visited" in state) != ("sequence" in state)
        assert "visited" in state or settings not in DRAWN
        resumed = new(settings)
        resumed.load_state_dict(state)
        assert run(resumed)[0] == straight[num_steps:], f"stopped after {num_steps} steps"


@pytest.mark.parametrize("labels", [None, LABELS])
def test_the_default_saves_few_bytes_per_example(labels, monkeypatch):
    monkeypatch.setattr(compact, "LARGE", 0)
    size = 9000
    sampler = go.recommended(size, 100, epochs=5, labels=None if labels is None else [i % 3 for i in range(size)])
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch in sampler.loader():
            sampler.step(fitted(epoch, batch))
    assert len(sampler) < 0.6 * size
    tensors = [value for value in sampler.state_dict().values() if isinstance(value, torch.Tensor)]
    assert sum(each.numel() * each.element_size() for each in tensors) < 4.5 * size


def test_a_sequence_that_cannot_be_drawn_again_is_refused(monkeypatch):
    monkeypatch.setattr(compact, "LARGE", 0)
    settings = {"ordering": go.Shuffled(), "labels": LABELS}
    state = new(settings).state_dict()
    with pytest.raises(ValueError, match="labels"):
        new({"ordering": go.Shuffled()}).load_state_dict(state)
    bad = [torch.zeros_like(state["visited"]), state["visited"][:1], state["visited"].int(), None]
    for entries in [{"visited": each} for each in bad] + [{"fingerprint": 0}, {"epoch": -1}, {"epoch": 1}]:
        with pytest.raises(ValueError, match="state"):
            new(settings).load_state_dict({**state, **entries})
    with pytest.raises(ValueError, match="seed=0"):
        go.OrderedSampler(SIZE, BATCH, **settings, seed=1).load_state_dict(state)

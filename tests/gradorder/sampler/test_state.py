"""A run stopped after any step and resumed sees exactly the batches it would have seen."""

import io
import math

import numpy as np
import pytest
import torch
from addresses import without_address
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DataLoader

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


def saved_and_loaded(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def run(sampler, *, first_epoch=0, uses_step=True, gives_scores=False, stop_after=None):
    """The batches that training consumed, and the state after `stop_after` of them."""
    seen = []
    for epoch in range(first_epoch, EPOCHS):
        sampler.set_epoch(epoch, scores=(lambda epoch=epoch: given_scores(epoch)) if gives_scores else None)
        for batch in BatchSampler(sampler, sampler.loader_batch_size, drop_last=False):
            seen.append((epoch, tuple(batch)))
            if uses_step:
                sampler.step(None if gives_scores else score(epoch, batch))
            if len(seen) == stop_after:
                return seen, saved_and_loaded(sampler.state_dict())
    return seen, saved_and_loaded(sampler.state_dict())


@every_setting
@may_lack_scores
@pytest.mark.parametrize("gives_scores", [True, False])
@pytest.mark.parametrize("uses_step", [True, False])
def test_resuming_after_any_step(settings, gives_scores, uses_step):
    straight, _ = run(new(settings), gives_scores=gives_scores, uses_step=uses_step)
    for stop in range(1, len(straight) + 1):
        seen, state = run(new(settings), stop_after=stop, gives_scores=gives_scores, uses_step=uses_step)
        resumed = new(settings)
        resumed.load_state_dict(state)
        rest, _ = run(resumed, first_epoch=resumed.epoch, gives_scores=gives_scores, uses_step=uses_step)
        assert seen + rest == straight, f"stopped after {stop} steps"


def new(settings):
    return go.OrderedSampler(SIZE, BATCH, **{"ordering": go.Descending(), **settings})


@every_setting
@may_lack_scores
def test_the_state_is_plain_tensors_and_numbers(settings):
    _, state = run(new(settings))
    assert all(isinstance(value, torch.Tensor | int | float | bool) for value in state.values())


def test_a_state_is_a_copy():
    sampler = new({})
    sampler.set_epoch(0, scores=given_scores(0))
    state = sampler.state_dict()
    before = {key: torch.as_tensor(value).clone() for key, value in state.items()}
    for _ in range(2):
        run(sampler)
    assert all(torch.equal(torch.as_tensor(state[key]), before[key]) for key in state)
    other = new({})
    other.load_state_dict(state)
    run(other, first_epoch=0)
    assert all(torch.equal(torch.as_tensor(state[key]), before[key]) for key in state)


def test_only_the_first_iteration_after_loading_starts_in_the_middle():
    sampler = new({"ordering": go.Shuffled()})
    whole = list(sampler)
    _, state = run(sampler, stop_after=2)
    resumed = new({"ordering": go.Shuffled()})
    resumed.load_state_dict(state)
    assert len(resumed) == SIZE
    assert list(resumed) == whole[2 * BATCH :]
    assert list(resumed) == whole


def test_a_finished_epoch_resumes_empty():
    sampler = new({})
    _, state = run(sampler)
    resumed = new({})
    resumed.load_state_dict(state)
    assert resumed.epoch == EPOCHS - 1
    assert list(resumed) == []


def test_setting_the_loaded_epoch_keeps_the_place_and_another_epoch_drops_it():
    _, state = run(new({}), stop_after=2)
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
    with pytest.raises(ValueError, match=r"epoch must be at least 3, where load_state_dict resumes, got 0"):
        resumed.set_epoch(0)


def test_resumed_steps_go_on_counting():
    _, state = run(new({}), stop_after=2)
    resumed = new({})
    resumed.load_state_dict(state)
    next(iter(resumed))
    resumed.step()
    assert resumed.state_dict()["consumed"] == 3
    with pytest.raises(go.StepError, match="3 batches of epoch 0 were delivered"):
        resumed.step()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_with_prefetching_workers_the_state_counts_what_was_consumed(num_workers):
    def loader(sampler):
        return DataLoader(range(SIZE), batch_size=BATCH, sampler=sampler, num_workers=num_workers)

    sampler = new({})
    sampler.set_epoch(0, scores=given_scores(0))
    iterator = iter(loader(sampler))
    straight = [next(iterator).tolist() for _ in range(2)]
    sampler.step()
    sampler.step()
    state = saved_and_loaded(sampler.state_dict())
    straight += [batch.tolist() for batch in iterator]
    resumed = new({})
    resumed.load_state_dict(state)
    assert straight[2:] == [batch.tolist() for batch in loader(resumed)]


@given(before=st.sampled_from([1, 2, 4]), after=st.sampled_from([1, 2, 4]), stop=st.integers(0, 5))
def test_resuming_on_another_number_of_processes(before, after, stop):
    def ranks(count):
        made = [
            go.OrderedSampler(24, 4, ordering=go.Descending(), num_replicas=count, rank=rank) for rank in range(count)
        ]
        for sampler in made:
            sampler.set_epoch(0, scores=torch.arange(24.0))
        return made

    def global_batches(samplers):
        parts = [list(BatchSampler(s, s.loader_batch_size, drop_last=False)) for s in samplers]
        return [sum(slices, []) for slices in zip(*parts, strict=True)]

    old = ranks(before)
    for sampler in old:
        iterator = iter(sampler)
        for _ in range(stop):
            [next(iterator) for _ in range(sampler.loader_batch_size)]
            sampler.step()
    states = [saved_and_loaded(sampler.state_dict()) for sampler in old]
    fresh = ranks(after)
    for sampler in fresh:
        sampler.load_state_dict(states[0])
    assert global_batches(fresh) == global_batches(ranks(1))[stop:]


def test_a_state_of_something_else_is_refused_and_changes_nothing():
    sampler = new({})
    good = sampler.state_dict()
    with pytest.raises(ValueError, match=r"state was made with num_examples=22, but this sampler has 23"):
        go.OrderedSampler(23, BATCH, ordering=go.Descending()).load_state_dict(good)
    with pytest.raises(ValueError, match=r"state was made with batch_size=4, but this sampler has 5"):
        go.OrderedSampler(SIZE, 5, ordering=go.Descending()).load_state_dict(good)
    with pytest.raises(ValueError, match=r"state was made with seed=0, but this sampler has 1"):
        go.OrderedSampler(SIZE, BATCH, ordering=go.Descending(), seed=1).load_state_dict(good)
    with pytest.raises(ValueError, match=r"state was made with version=0, but this sampler has 4"):
        sampler.load_state_dict({**good, "version": 0})
    with pytest.raises(ValueError, match=r"it has no 'version'"):
        sampler.load_state_dict({})
    with pytest.raises(ValueError, match=r"it has no 'sequence'"):
        sampler.load_state_dict({key: value for key, value in good.items() if key != "sequence"})
    with pytest.raises(ValueError, match="examples 0 to 21"):
        sampler.load_state_dict({**good, "sequence": torch.tensor([22])})
    with pytest.raises(ValueError, match=r"consumed 0 to 6 batches, got 7"):
        sampler.load_state_dict({**good, "consumed": 7})
    with pytest.raises(ValueError, match=r"remembered_scores.*22 numbers, got shape \(3,\)"):
        sampler.load_state_dict({**good, "remembered_scores": torch.rand(3)})
    assert torch.equal(sampler.state_dict()["sequence"], good["sequence"])


@pytest.mark.parametrize("name", ["sequence", "planned_epochs", "remembered_scores", "history_visits"])
def test_a_state_that_went_through_json_is_refused(name):
    sampler = new({})
    sampler.record_history()
    run(sampler)
    state = sampler.state_dict()
    state[name] = state[name].tolist()
    with pytest.raises(ValueError, match=f"state must hold {name} as torch.save .* got a list: was it written as JSON"):
        new({}).load_state_dict(state)


BAD = {
    "epoch": [-1, 1.5, True],
    "consumed": [-1, 1.5],
    "is_stepped": [1],
    "sequence": [
        torch.zeros(22, dtype=torch.int64),
        torch.arange(22).reshape(2, 11),
        torch.arange(22.0),
        torch.tensor([]),
    ],
    "planned_epochs": [torch.tensor([[0, -1, 5]]), torch.tensor([0, 6]), torch.tensor([[0.0, 6.0, 5.0]])],
    "worth": [-1.0, float("nan"), "much"],
    "gradients": [-1.0, float("inf")],
    "is_run": [1, "yes"],
    "remembered_scores": [torch.full((22,), math.inf), torch.zeros(22, dtype=torch.int64), torch.zeros(22, 1)],
    "weights": [torch.full((22,), math.nan), -torch.ones(22), torch.ones(21)],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values], ids=str
)
def test_every_field_of_a_state_is_validated(name, value):
    sampler = new({})
    _, state = run(sampler, stop_after=2)
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
    straight, _ = run(new(settings))
    for stop in range(1, len(straight) + 1):
        seen, state = run(new(settings), stop_after=stop)
        assert ("visited" in state) != ("sequence" in state)
        assert "visited" in state or settings not in DRAWN
        resumed = new(settings)
        resumed.load_state_dict(state)
        assert seen + run(resumed, first_epoch=resumed.epoch)[0] == straight, f"stopped after {stop} steps"


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

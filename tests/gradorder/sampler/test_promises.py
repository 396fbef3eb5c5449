"""Two promises, over all rules that skip examples, wrappers, ranks, drop_last, batch sizes and resumes.

Every example is visited at least once in `every` consecutive epochs; and a configuration that is accepted at
construction never raises in the middle of a run.
"""

import math
import warnings

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.utils.data import BatchSampler

import gradorder as go

EPOCHS = 10
few = settings(max_examples=settings().max_examples // 2)
PROMISING = {  # rule -> the epochs within which every example is visited
    go.Unlearned(): 4,
    go.Unlearned(every=3): 3,
    go.FlipFlop(go.Unlearned()): 4,
    go.FlipFlop(go.Unlearned(every=5)): 5,
    go.Revisiting(go.Descending(), every=4): 4,
    go.Revisiting(go.PlackettLuce(unbiased=True), every=3): 3,
    go.FlipFlop(go.Revisiting(go.Ascending(), every=4)): 4,
    go.Revisiting(go.Undecided(go.PlackettLuce(0.5)), every=5): 5,
}
OTHERS = [
    go.Descending(),
    go.FlipFlop(go.Descending()),
    go.InfoBatch(EPOCHS),
    go.FlipFlop(go.InfoBatch(EPOCHS)),
    go.PlackettLuce(unbiased=True),
    go.Shuffled(),
]
PRUNING = (go.Unlearned, go.InfoBatch)


@st.composite
def runs(draw, rules):
    """The settings of a sampler that its constructor accepts."""
    rule = draw(st.sampled_from(rules))
    size, ranks, ranks_later = draw(st.integers(1, 60)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    prunes = isinstance(rule, PRUNING) or isinstance(getattr(rule, "inner", None), PRUNING)
    settings = {
        "dataset_or_length": size,
        "batch_size": math.lcm(ranks, ranks_later) * draw(st.integers(1, 6)),
        "ordering": rule,
        "labels": draw(st.none() | st.lists(st.integers(0, 3), min_size=size, max_size=size)),
        "keep": 1.0 if prunes else draw(st.sampled_from([1.0, 0.7, 0.5, 1 / 3])),
        "start_epoch": draw(st.integers(0, 2)),
        "drop_last": draw(st.booleans()),
        "seed": draw(st.integers(0, 5)),
        "epochs": EPOCHS,
    }
    try:
        for number in (ranks, ranks_later):
            go.OrderedSampler(**settings, num_replicas=number, rank=0)
    except ValueError:
        assume(False)
    return settings, ranks, ranks_later


def losses_of(size, epoch, hard):
    """Most examples are fitted, in any pattern; some lose their fit again."""
    return torch.tensor(
        [2.0 if (hard >> (i % 12)) & 1 and (i + epoch) % 3 else 0.001 + i % 5 / 1000 for i in range(size)]
    )


def visited(settings, ranks, ranks_later, hard, resumes_at=None):
    """The examples of every epoch, over all ranks; the run is resumed with another number of ranks."""
    samplers = [go.OrderedSampler(**settings, num_replicas=ranks, rank=rank) for rank in range(ranks)]
    epochs = []
    for epoch in range(EPOCHS):
        seen = []
        for sampler in samplers:
            sampler.set_epoch(epoch, scores=losses_of(settings["dataset_or_length"], epoch, hard))
            batches = list(BatchSampler(sampler, sampler.loader_batch_size, drop_last=False))
            assert batches
            assert 0 <= sampler.progress <= 1
            assert math.isfinite(sampler.loss_scale)
            seen += sum(batches, [])
        assert len(set(seen)) == len(seen)
        epochs.append(set(seen))
        if epoch == resumes_at:
            state = samplers[0].state_dict()
            samplers = [go.OrderedSampler(**settings, num_replicas=ranks_later, rank=r) for r in range(ranks_later)]
            for sampler in samplers:
                sampler.load_state_dict(state)
                assert list(sampler) == []  # the epoch was over
            assert set(seen) <= {index for sampler in samplers for index in sampler}
    return epochs


@few
@given(run=runs(list(PROMISING)), hard=st.integers(0, 2**12 - 1), resumes_at=st.none() | st.integers(0, EPOCHS - 1))
def test_every_example_is_visited_in_time(run, hard, resumes_at):
    settings, *ranks = run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        epochs = visited(settings, *ranks, hard, resumes_at)
    everyone, every = set(range(settings["dataset_or_length"])), PROMISING[settings["ordering"]]
    for start in range(settings["start_epoch"], EPOCHS - every + 1):
        assert set().union(*epochs[start : start + every]) == everyone, f"epochs {start} to {start + every - 1}"


@few
@given(run=runs(OTHERS), hard=st.integers(0, 2**12 - 1), resumes_at=st.none() | st.integers(0, EPOCHS - 1))
def test_an_accepted_configuration_never_raises_in_mid_run(run, hard, resumes_at):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        visited(*run, hard, resumes_at)


@pytest.mark.parametrize("batch_size", [64, 512])
def test_the_default_with_drop_last_goes_on_when_little_is_left(batch_size):
    sampler = go.recommended(1000, batch_size, epochs=6, drop_last=True)
    for epoch in range(6):
        sampler.set_epoch(epoch)
        for batch in sampler.loader():
            sampler.step((batch > 990).float() + 0.001)
        assert len(sampler) % batch_size == 0
    assert len(sampler) < 1000


@pytest.mark.parametrize("num_classes", [2, 4, 8])
def test_classes_that_take_turns_do_not_come_back_class_by_class(num_classes):
    """Rows with a period, for example four augmentations per image: a turn holds about as many of each class."""
    rule = go.Unlearned()
    scores = torch.full((4000,), 0.01)
    scores[:40] = 2.0
    sampler = go.OrderedSampler(4000, 100, ordering=rule)
    for epoch in range(4):
        sampler.set_epoch(epoch, scores=scores)
        counts = torch.bincount(torch.tensor(list(sampler)) % num_classes, minlength=num_classes)
        assert counts.max() < 1.25 * counts.min()


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_state_with_a_short_last_batch_is_resumed_with_more_processes(ranks):
    """The last batch has two examples; skipped examples fill it, so that every process has two."""
    settings = {"dataset_or_length": 120, "batch_size": 12, "ordering": go.Unlearned()}
    for num_hard in range(10, 60):
        sampler = go.OrderedSampler(**settings)
        sampler.set_epoch(1, scores=torch.where(torch.arange(120) < num_hard, 2.0, 0.001))
        if len(sampler) % 12 == 2:
            break
    state, sequence = sampler.state_dict(), list(sampler)
    assert len(sequence) % 12 == 2
    resumed = [go.OrderedSampler(**settings, num_replicas=ranks, rank=rank) for rank in range(ranks)]
    for each in resumed:
        each.load_state_dict(state)
    slices = [list(BatchSampler(each, each.loader_batch_size, drop_last=False)) for each in resumed]
    assert {len(each) for each in slices} == {len(sequence) // 12 + 1}
    batches = [sum(parts, []) for parts in zip(*slices, strict=True)]
    assert sum(batches, [])[: len(sequence)] == sequence
    assert len(batches[-1]) == len(set(batches[-1])) == 2 * ranks


@pytest.mark.parametrize("ordering", [go.Unlearned(), go.InfoBatch(100), go.FlipFlop(go.InfoBatch(100))], ids=str)
@pytest.mark.parametrize(("num_examples", "fewest"), [(120, 2), (121, 1)])
def test_a_batch_of_one_example_ends_an_epoch_only_if_it_ends_a_complete_one(ordering, num_examples, fewest):
    """BatchNorm cannot train on it, and the user cannot see it coming."""
    sampler = go.OrderedSampler(num_examples, 6, ordering=ordering)
    tails = set()
    for epoch in range(1, 60):
        scores = torch.where(torch.arange(num_examples) < 10 + epoch, 2.0, 0.001)
        sampler.set_epoch(epoch, scores=scores)
        assert len(set(sampler)) == len(sampler)
        tails.add((len(sampler) - 1) % 6 + 1)
    assert tails == set(range(fewest, 7))

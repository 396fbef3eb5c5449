import math
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DataLoader

import gradorder as go

SCORES = torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 7.0, 8.0, 6.0, 0.0])

DESCENDING = sorted(range(10), key=lambda i: -SCORES[i])


def planned(*args, scores=SCORES, epoch=0, **settings):
    sampler = go.OrderedSampler(10, *args, **{"ordering": go.Descending(), **settings})
    sampler.set_epoch(epoch, scores=scores)
    return sampler


def batches(sampler):
    return list(BatchSampler(sampler, sampler.loader_batch_size, drop_last=False))


# ------------------------------------------------------------------------------------------------ order


def test_hands_out_the_order_batch_after_batch():
    sampler = planned(4)
    assert batches(sampler) == [DESCENDING[:4], DESCENDING[4:8], DESCENDING[8:]]
    assert len(sampler) == 10
    assert batches(sampler) == batches(sampler)
    assert all(isinstance(index, int) for index in sampler)


def test_random_epochs_are_the_same_for_every_ordering_and_layout():
    """So that runs can be compared on the same warm-up."""
    expected = list(go.OrderedSampler(10, 4, ordering=go.Shuffled()))
    for settings in (
        {},
        {"layout": "dealt"},
        {"layout": "shuffled"},
        {"keep": 0.5},
        {"ordering": go.FlipFlop(go.Descending())},
    ):
        sampler = go.OrderedSampler(10, 4, start_epoch=1, **{"ordering": go.Descending(), **settings})
        assert list(sampler) == expected


def test_start_epoch_random_and_complete_before_ordered_and_kept_after():
    sampler = go.OrderedSampler(10, 4, ordering=go.Descending(), start_epoch=2, keep=0.5)
    for epoch in range(4):
        sampler.set_epoch(epoch, scores=SCORES)
        if epoch < 2:
            assert sorted(sampler) == list(range(10))
            assert list(sampler) != DESCENDING
        else:
            assert list(sampler) == DESCENDING[:5]


def test_dealt_layout():
    sampler = planned(5, layout="dealt")
    assert list(sampler) == DESCENDING[::2] + DESCENDING[1::2]


def test_shuffled_layout_keeps_the_hardest_in_an_order_that_scores_do_not_decide():
    def epochs(scores, seed=0):
        sampler = go.OrderedSampler(40, 8, ordering=go.Descending(), keep=0.5, layout="shuffled", seed=seed)
        for epoch in range(5):
            sampler.set_epoch(epoch, scores=scores)
            yield tuple(sampler)

    scores = torch.arange(40.0).roll(7)
    hardest = sorted(range(40), key=lambda i: -scores[i])[:20]
    seen = list(epochs(scores))
    assert all(sorted(epoch) == sorted(hardest) for epoch in seen)
    assert len(set(seen)) == 5
    assert seen == list(epochs(scores))
    assert seen != list(epochs(scores, seed=1))
    # The hardest example is as likely to come late as early.
    firsts = [epoch.index(hardest[0]) for seed in range(20) for epoch in epochs(scores, seed)]
    assert abs(np.mean(firsts) - 9.5) < 5 * np.sqrt((20**2 - 1) / 12 / len(firsts))


def test_drop_last_leaves_out_the_short_batch():
    sampler = planned(4, drop_last=True)
    assert batches(sampler) == [DESCENDING[:4], DESCENDING[4:8]]
    assert len(sampler) == 8
    dealt = planned(4, drop_last=True, layout="dealt")
    assert len(batches(dealt)) == 2


# ------------------------------------------------------------------------------------------------ sizes


@given(
    num_examples=st.integers(1, 60),
    batch_size=st.integers(1, 20),
    keep=st.floats(0.01, 1),
    num_classes=st.integers(0, 4),
    start_epoch=st.integers(0, 2),
)
def test_the_promised_number_of_examples_is_the_number_seen(num_examples, batch_size, keep, num_classes, start_epoch):
    labels = np.arange(num_examples) % num_classes if num_classes else None
    sampler = go.OrderedSampler(
        num_examples, batch_size, ordering=go.Descending(), keep=keep, labels=labels, start_epoch=start_epoch
    )
    promised = [sampler.num_steps(epoch, epoch + 1) for epoch in range(4)]
    assert sampler.num_steps(0, 4) == sum(promised)
    for epoch in range(4):
        sampler.set_epoch(epoch, scores=torch.rand(num_examples))
        counts = [num_examples] if labels is None else np.bincount(labels)
        part = Fraction(str(keep))  # as it is written: 0.07 of 100 is 7
        expected = num_examples if epoch < start_epoch else sum(max(1, math.ceil(part * int(n))) for n in counts)
        seen = list(sampler)
        assert len(seen) == len(set(seen)) == len(sampler) == expected
        assert len(batches(sampler)) == promised[epoch] == math.ceil(expected / batch_size)


def test_keep_may_follow_the_epoch():
    sampler = go.OrderedSampler(10, 2, ordering=go.Descending(), keep=lambda epoch: 1 / (1 + epoch))
    assert sampler.num_steps(0, 3) == 5 + 3 + 2
    for epoch, length in enumerate([10, 5, 4]):
        sampler.set_epoch(epoch, scores=SCORES)
        assert list(sampler) == DESCENDING[:length]


def test_num_steps_counts_a_planned_epoch_as_it_is():
    sampler = go.OrderedSampler(10, 2, ordering=go.Descending(), keep=0.5)
    sampler.set_epoch(0)  # nothing remembered: random and complete
    assert sampler.num_steps(0, 2) == 5 + 3
    sampler.set_epoch(1, scores=SCORES)
    assert sampler.num_steps(0, 2) == 5 + 3


def test_looking_at_an_epoch_does_not_plan_it():
    """A framework asks a loader how long it is before it counts the steps of its schedule."""
    sampler = go.OrderedSampler(10, 2, ordering=go.Descending(), keep=0.5)
    assert len(DataLoader(range(10), 2, sampler=sampler)) == 5
    assert sampler.steps_left == 5
    sampler.state_dict()
    assert sampler.num_steps(0, 2) == 3 + 3
    sampler.set_epoch(0, scores=SCORES)
    assert len(list(sampler)) == 5  # examples: 3 steps, as counted
    begun = go.OrderedSampler(10, 2, ordering=go.Descending(), keep=0.5)
    with pytest.warns(UserWarning, match="epoch 0 is random"):
        next(iter(begun))
    assert begun.num_steps(0, 2) == 5 + 3


def test_a_broken_promise_is_said_aloud():
    sampler = go.OrderedSampler(10, 2, ordering=go.Descending(), keep=0.5)
    assert sampler.num_steps(0, 3) == 9
    sampler.set_epoch(0, scores=SCORES)
    forget_scores(sampler).set_epoch(1)
    with pytest.warns(UserWarning, match=r"epoch 1 has 5 .*num_steps.*3"):
        list(sampler)
    list(sampler)  # once is enough


def test_a_promise_is_not_broken_by_a_plan_that_the_scores_replace():
    sampler = go.OrderedSampler(10, 2, ordering=go.Descending(), keep=0.5)
    assert sampler.num_steps(0, 1) == 3
    sampler.set_epoch(0)  # a framework's call
    sampler.set_epoch(0, scores=SCORES)
    assert len(list(sampler)) == 5


def forget_scores(sampler):
    sampler._memory.restore(None)
    return sampler


# ------------------------------------------------------------------------------------------------ planning


def test_scores_are_computed_only_when_needed():
    calls = []

    def scores():
        calls.append(1)
        return SCORES

    sampler = go.OrderedSampler(10, 4, ordering=go.Descending(), start_epoch=1)
    sampler.set_epoch(0, scores=scores)
    assert calls == []
    sampler.set_epoch(1, scores=scores)
    assert calls == [1]
    unscored = go.OrderedSampler(10, 4, ordering=go.Shuffled())
    unscored.set_epoch(1, scores=scores)
    assert calls == [1]


def test_set_epoch_again_without_scores_changes_nothing():
    sampler = planned(4)
    sampler.set_epoch(0)
    assert list(sampler) == DESCENDING


def test_set_epoch_again_with_scores_replans_until_something_is_consumed():
    sampler = planned(4)
    sampler.set_epoch(0, scores=-SCORES)
    assert list(sampler) == DESCENDING[::-1]
    iterator = iter(sampler)
    next(iterator)
    sampler.set_epoch(0, scores=SCORES)  # handed out, but not consumed
    assert list(sampler) == DESCENDING
    iterator = iter(sampler)
    next(iterator)
    sampler.step()
    sampler.set_epoch(0, scores=lambda: pytest.fail("called for an epoch under way"))
    assert list(sampler) == DESCENDING


def test_an_iterator_keeps_the_plan_it_was_made_with():
    sampler = planned(4)
    iterator = iter(sampler)
    assert next(iterator) == DESCENDING[0]
    sampler.set_epoch(1, scores=-SCORES)
    assert list(iterator) == DESCENDING[1:]
    assert list(sampler) == DESCENDING[::-1]


def test_a_failed_plan_leaves_the_sampler_as_it_was():
    sampler = planned(4)
    next(iter(sampler))
    sampler.step(torch.rand(4))
    before = sampler.state_dict()
    for bad in (torch.rand(9), torch.full((10,), math.nan), lambda: 1 / 0):
        with pytest.raises((ValueError, ZeroDivisionError)):
            sampler.set_epoch(1, scores=bad)
    after = sampler.state_dict()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[key], after[key], equal_nan=True) for key in before)


def test_scores_stay_as_they_were_given_when_the_caller_changes_them():
    scores = SCORES.clone()
    sampler = go.OrderedSampler(10, 4, ordering=go.FlipFlop(go.Descending()))
    sampler.set_epoch(0, scores=scores)
    scores.zero_()
    sampler.set_epoch(1)
    assert list(sampler) == DESCENDING[::-1]
    sampler.set_epoch(2)
    assert list(sampler) == DESCENDING


# ------------------------------------------------------------------------------------------------ FlipFlop


def test_flip_flop_reverses_the_kept_part_and_reuses_the_scores():
    sampler = go.OrderedSampler(10, 4, ordering=go.FlipFlop(go.Descending()), keep=0.4)
    sampler.set_epoch(0, scores=SCORES)
    assert list(sampler) == DESCENDING[:4]
    sampler.set_epoch(1, scores=lambda: pytest.fail("the even epoch's scores serve"))
    assert list(sampler) == DESCENDING[3::-1]
    sampler.set_epoch(2, scores=-SCORES)
    assert list(sampler) == DESCENDING[:5:-1]


def test_flip_flop_replays_random_epochs_too():
    for ordering in (go.FlipFlop(go.Shuffled()), go.FlipFlop(go.Descending())):
        sampler = go.OrderedSampler(10, 4, ordering=ordering, keep=0.5)
        sampler.set_epoch(0)
        with pytest.warns(UserWarning, match="epoch 0 is random") if ordering.needs_scores else nullcontext():
            even = list(sampler)
        for _ in range(3 if ordering.needs_scores else 0):
            list(sampler)
        sampler.set_epoch(1)
        assert list(sampler) == even[::-1]


def test_flip_flop_that_starts_odd_is_ordered_from_its_start():
    sampler = go.OrderedSampler(10, 4, ordering=go.FlipFlop(go.Descending()), start_epoch=1)
    sampler.set_epoch(0)
    sampler.set_epoch(1, scores=SCORES)
    assert list(sampler) == DESCENDING[::-1]


# ------------------------------------------------------------------------------------------------ consuming


def train(sampler, epoch, scores_of, scores=None):
    """One epoch as a user runs it, returning the batches."""
    sampler.set_epoch(epoch, scores=scores)
    seen = []
    for batch in BatchSampler(sampler, sampler.loader_batch_size, drop_last=False):
        seen.append(batch)
        sampler.step(scores_of[batch])
    return seen


def test_remembered_scores_order_the_next_epoch():
    sampler = go.OrderedSampler(10, 4, ordering=go.Descending(), keep=0.6, start_epoch=1)
    assert sorted(sum(train(sampler, 0, SCORES), [])) == list(range(10))  # nothing remembered yet
    assert sum(train(sampler, 1, SCORES), []) == DESCENDING[:6]
    # The examples left out keep the score they had.
    changed = -SCORES
    assert sum(train(sampler, 2, changed), []) == DESCENDING[:6]
    sampler.set_epoch(3)
    assert list(sampler)[:4] == DESCENDING[6:]


def test_given_scores_win_and_replace_what_was_remembered():
    sampler = go.OrderedSampler(10, 4, ordering=go.Descending())
    train(sampler, 0, SCORES)
    sampler.set_epoch(1, scores=-SCORES)
    assert list(sampler) == DESCENDING[::-1]
    sampler.set_epoch(2)
    assert list(sampler) == DESCENDING[::-1]


def test_scores_given_before_the_start_are_remembered():
    sampler = go.OrderedSampler(10, 4, ordering=go.Descending(), start_epoch=1)
    sampler.set_epoch(0, scores=SCORES)
    assert list(sampler) != DESCENDING
    sampler.set_epoch(1)
    assert list(sampler) == DESCENDING


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_an_example_never_scored_ranks_as_the_hardest(dtype):
    sampler = go.OrderedSampler(10, 4, ordering=go.Descending())
    iterator = iter(sampler)
    first = [next(iterator) for _ in range(4)]
    sampler.step(SCORES[first].to(dtype))
    sampler.set_epoch(1)
    assert list(sampler) == sorted(set(range(10)) - set(first)) + sorted(first, key=lambda i: -SCORES[i])


def test_losses_with_grad_are_remembered_without_it():
    sampler = go.OrderedSampler(4, 4, ordering=go.Descending())
    next(iter(sampler))
    sampler.step(torch.rand(4, requires_grad=True))
    assert not sampler.state_dict()["remembered_scores"].requires_grad


# ------------------------------------------------------------------------------------------------ DataLoader


# ------------------------------------------------------------------------------------------------ ranks


@pytest.mark.parametrize("num_replicas", [2, 3, 4])
def test_slices_of_all_ranks_make_the_global_batches(num_replicas):
    expected = batches(planned(12, scores=SCORES))
    ranks = [planned(12, num_replicas=num_replicas, rank=rank) for rank in range(num_replicas)]
    slices = [batches(rank) for rank in ranks]
    assert [sum((rank[number] for rank in slices), []) for number in range(len(expected))] == expected
    assert [len(rank) for rank in ranks] == [sum(map(len, part)) for part in slices]
    assert sum(rank.loss_scale for rank in ranks) == pytest.approx(num_replicas)


def test_ranks_are_checked():
    with pytest.raises(ValueError, match=r"2 examples.*drop_last"):
        go.OrderedSampler(10, 8, ordering=go.Descending(), num_replicas=4, rank=0)
    sampler = go.OrderedSampler(8, 4, ordering=go.Descending(), num_replicas=2, rank=0)
    next(iter(sampler))
    with pytest.raises(RuntimeError, match=r"num_replicas=2.*set_epoch"):
        sampler.step(torch.rand(2))


# ------------------------------------------------------------------------------------------------ bad input


def test_a_list_of_examples_is_a_dataset():
    """Of tensors of one size, or of images of any size."""
    for size in [(3,), (3, 4)]:
        assert go.OrderedSampler([torch.ones(size)] * 7, 2, ordering=go.Shuffled()).num_examples == 7
    images = [torch.ones(3, 4, width) for width in range(1, 8)]
    assert go.OrderedSampler(images, 2, ordering=go.Shuffled()).num_examples == 7
    assert go.OrderedSampler([(torch.ones(3), 1)] * 7, 2, ordering=go.Shuffled()).num_examples == 7
    assert go.OrderedSampler(torch.ones(7, 3), 2, ordering=go.Shuffled()).num_examples == 7


def test_bad_steps_are_refused_and_change_nothing():
    sampler = planned(4)
    with pytest.raises(go.StepError, match="0 batches"):
        sampler.step()
    next(iter(sampler))
    with pytest.raises(ValueError, match=r"0.*\(3,\)"):
        sampler.step(torch.rand(3))
    with pytest.raises(ValueError, match=r'reduction="none"'):
        sampler.step(torch.tensor(1.0))
    bad = torch.tensor([1.0, math.nan, 2.0, math.inf])
    with pytest.raises(go.NonFiniteScoresError, match=f"examples {DESCENDING[1]}, {DESCENDING[3]}"):
        sampler.step(bad)
    assert sampler.state_dict()["remembered_scores"].tolist() == SCORES.tolist()
    sampler.step(torch.rand(4))
    with pytest.raises(go.StepError, match="1 batches"):
        sampler.step()


def test_an_ordering_of_the_users_own_is_checked_at_construction():
    @dataclass(frozen=True)
    class Broken(go.Ordering):
        indices: tuple

        needs_scores = False

        def order(self, request):
            return go.Order(torch.tensor(self.indices))

    for order, message in [
        ((0, 1, 1), "each at most once, got an example twice"),
        ((0, 1, 3), "indices from 0 to 3"),
        ((), r"shape \(0,\)"),
        ((0.0, 1.0, 2.0), "torch.float32"),
    ]:
        with pytest.raises(ValueError, match=message):
            go.OrderedSampler(3, 2, ordering=Broken(order))
    assert list(go.OrderedSampler(3, 2, ordering=Broken((2, 0, 1)))) == [2, 0, 1]
    assert list(go.OrderedSampler(3, 2, ordering=Broken((2, 0)))) == [2, 0]

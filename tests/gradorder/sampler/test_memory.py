import copy
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from accelerator import OnAccelerator

import gradorder as go
from gradorder.ranks import Ranks
from gradorder.sampler import memory as memory_module
from gradorder.sampler.memory import ScoreMemory


def test_scores_on_an_accelerator_wait_until_they_are_settled():
    memory = ScoreMemory(4)
    scores = torch.tensor([1.0, math.nan]).as_subclass(OnAccelerator)
    memory.remember(np.array([2, 0]), scores)  # no look at the values, so no wait
    with pytest.raises(go.NonFiniteScoresError, match=r"1 of 2.*examples 0"):
        memory.settle()
    memory.remember(np.array([2, 0]), torch.tensor([1.0, 3.0]).as_subclass(OnAccelerator))
    later = torch.tensor([2.0]).as_subclass(OnAccelerator)
    memory.remember(np.array([1]), later)
    later.zero_()  # as a buffer that is used again
    memory.settle()
    known = memory.known()
    assert known[:3].tolist() == [3.0, 2.0, 1.0]
    assert math.isnan(known[3])


def test_the_error_survives_the_way_from_another_process():
    error = go.NonFiniteScoresError.of(torch.tensor([1.0, math.nan]), torch.tensor([5, 7]))
    again = copy.copy(error)  # made of the same parts as one that was sent
    assert (str(again), again.num_bad, again.first_indices) == (str(error), 1, (7,))


def test_an_unknown_score_stays_finite_even_above_the_largest_float():
    """The rule sees a finite stand-in for it: the largest score there is, not one above it."""
    seen = []

    @dataclass(frozen=True)
    class Watching(go.Ordering):
        needs_scores = True

        def order(self, request):
            seen.append((request.scores.tolist(), request.known.tolist()))
            return go.Order(request.kept(torch.arange(2)))

    largest = torch.finfo(torch.float32).max
    sampler = go.OrderedSampler(2, 1, ordering=Watching())
    iterator = iter(sampler)
    example = next(iterator)
    sampler.step(torch.tensor([largest]))
    sampler.set_epoch(1)
    assert seen == [([largest, largest], [index == example for index in range(2)])]
    assert next(iter(sampler)) != example


@pytest.mark.parametrize("is_given", [True, False])
def test_whole_numbers_are_kept_exactly(is_given):
    scores = torch.tensor([2**24, 2**24 + 1, 2**24 - 1])
    sampler = go.OrderedSampler(3, batch_size=3, ordering=go.Descending())
    if is_given:
        sampler.set_epoch(0, scores=scores)
    else:
        sampler.step(scores[list(sampler)])
    sampler.set_epoch(1)
    assert list(sampler) == [1, 0, 2]


def test_precision_is_kept():
    memory = ScoreMemory(3)
    memory.remember(np.array([0]), torch.tensor([0.1], dtype=torch.float64))
    memory.remember(np.array([1]), torch.tensor([0.5], dtype=torch.bfloat16))
    memory.settle()
    assert memory.known().dtype == torch.float64
    assert memory.known()[0] == 0.1


def test_what_is_remembered_is_not_what_the_caller_changes_later():
    memory = ScoreMemory(1)
    scores = torch.tensor([1.0])
    memory.remember(np.array([0]), scores)
    scores.zero_()
    memory.settle()
    assert memory.known().tolist() == [1.0]


@pytest.mark.parametrize("where", ["accelerator", "several processes"])
def test_what_waits_is_never_more_than_two_scores_per_example_and_a_fixed_number_of_batches(where, monkeypatch):
    monkeypatch.setattr(memory_module, "_MAX_PENDING", 20)
    generator = torch.Generator().manual_seed(0)
    together = where == "several processes"
    memory = ScoreMemory(30, Ranks(num=2, rank=0, is_connected=True)) if together else ScoreMemory(30)
    expected = torch.full((30,), math.nan)
    most = 0
    for _ in range(500):
        indices = torch.randperm(30, generator=generator)[:7]
        scores = torch.rand(7, generator=generator)
        memory.remember(indices.numpy(), scores if together else scores.as_subclass(OnAccelerator))
        expected[indices] = scores
        most = max(most, sum(len(each[2]) for each in memory._pending))
        assert len(memory._pending) < 20 + 3  # and what was merged
    assert most <= 2 * 30 + 20 * 7
    _, where_to, scores = memory._merge()
    assert sorted(where_to) == list(range(30))
    assert torch.equal(scores.as_subclass(torch.Tensor), expected[torch.from_numpy(where_to)])


def test_what_was_forgotten_was_never_scored():
    memory = ScoreMemory(3)
    memory.forget(torch.tensor([1]))
    assert memory.known() is None
    memory.remember(np.array([0, 1, 2]), torch.tensor([1.0, 2.0, 3.0]))
    memory.forget(torch.tensor([], dtype=torch.int64))
    assert memory.known().tolist() == [1.0, 2.0, 3.0]
    memory.forget(torch.tensor([1]))
    assert memory.known().nan_to_num(-1).tolist() == [1.0, -1.0, 3.0]
    memory.forget(torch.tensor([0, 2]))
    assert memory.known() is None
    assert memory.is_empty

import copy
import math

import pytest
import torch

import gradorder as go
from gradorder.memory import ScoreMemory


class Elsewhere(torch.Tensor):
    """A CPU tensor that says it lives on an accelerator."""

    @property
    def device(self):
        return torch.device("cuda")


def test_scores_on_an_accelerator_wait_until_they_are_settled():
    memory = ScoreMemory(4)
    scores = torch.tensor([1.0, math.nan]).as_subclass(Elsewhere)
    memory.remember(torch.tensor([2, 0]), scores)  # no look at the values, so no wait
    with pytest.raises(go.NonFiniteScoresError, match=r"1 of 2 are NaN or infinite \(examples 0\)"):
        memory.settle()
    memory.remember(torch.tensor([2, 0]), torch.tensor([1.0, 3.0]).as_subclass(Elsewhere))
    memory.remember(torch.tensor([1]), torch.tensor([2.0]).as_subclass(Elsewhere))
    memory.settle()
    known = memory.known()
    assert known[:3].tolist() == [3.0, 2.0, 1.0]
    assert math.isnan(known[3])


def test_the_error_survives_the_way_from_another_process():
    error = go.NonFiniteScoresError.of(torch.tensor([1.0, math.nan]), torch.tensor([5, 7]))
    again = copy.copy(error)  # made of the same parts as one that was sent
    assert (str(again), again.num_bad, again.first_indices) == (str(error), 1, (7,))


def test_an_unknown_score_stays_finite_even_above_the_largest_float():
    memory = ScoreMemory(2)
    largest = torch.finfo(torch.float32).max
    memory.remember(torch.tensor([1]), torch.tensor([largest]))
    memory.settle()
    assert memory.complete().tolist() == [largest, largest]


def test_precision_is_kept():
    memory = ScoreMemory(3)
    memory.remember(torch.tensor([0]), torch.tensor([0.1], dtype=torch.float64))
    memory.remember(torch.tensor([1]), torch.tensor([0.5], dtype=torch.bfloat16))
    memory.settle()
    assert memory.known().dtype == torch.float64
    assert memory.known()[0] == 0.1


def test_of_several_scores_for_one_example_the_last_stays():
    memory = ScoreMemory(2)
    memory.remember(torch.tensor([0, 1]), torch.tensor([1.0, 2.0]))
    memory.remember(torch.tensor([1]), torch.tensor([3.0]))
    memory.settle()
    assert memory.known().tolist() == [1.0, 3.0]


def test_what_is_remembered_is_not_what_the_caller_changes_later():
    memory = ScoreMemory(1)
    scores = torch.tensor([1.0])
    memory.remember(torch.tensor([0]), scores)
    scores.zero_()
    memory.settle()
    assert memory.known().tolist() == [1.0]


def test_few_batches_wait_at_any_time():
    memory = ScoreMemory(1)
    for step in range(2500):
        memory.remember(torch.tensor([0]), torch.tensor([float(step)]))
    assert memory.known().tolist() == [1999.0]
    memory.settle()
    assert memory.known().tolist() == [2499.0]

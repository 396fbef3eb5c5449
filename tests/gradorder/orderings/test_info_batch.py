import math

import numpy as np
import pytest
import torch
from asking import order_of
from torch.utils.data import DataLoader

import gradorder as go

SCORES = torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 7.0, 8.0, 6.0, 0.0])  # the mean is 4.5
LOW = {1, 2, 3, 4, 9}
HIGH = set(range(10)) - LOW


def drawn(ordering, seed=0, epoch=0, scores=SCORES):
    """The order and the weights of one epoch."""
    order = order_of(ordering, scores, epoch=epoch, seed=seed)
    return order.indices.tolist(), None if order.weights is None else order.weights.tolist()


def test_low_ones_are_dropped_at_random_and_high_ones_stay():
    counts = torch.zeros(10)
    sizes = set()
    for seed in range(800):
        order, weights = drawn(go.InfoBatch(100, ratio=0.3), seed)
        assert set(order) >= HIGH
        assert len(set(order)) == len(order)
        assert all(
            weight == (pytest.approx(1 / 0.7) if i in LOW else 1) for i, weight in zip(order, weights, strict=True)
        )
        counts[order] += 1
        sizes.add(len(order))
    assert counts[sorted(HIGH)].tolist() == [800] * 5
    assert sizes == {5 + 3}  # floor(0.7 * 5) of the low ones, whatever the seed
    assert (counts[sorted(LOW)] - 480).abs().max() < 5 * math.sqrt(800 * 0.6 * 0.4)


def test_the_weighted_sum_is_right_on_average():
    sums = []
    for seed in range(800):
        order, weights = drawn(go.InfoBatch(100, ratio=0.4), seed)
        sums.append(sum(SCORES[i].item() ** 2 * weight for i, weight in zip(order, weights, strict=True)))
    assert abs(np.mean(sums) - (SCORES**2).sum().item()) < 4 * np.std(sums) / math.sqrt(800)


@pytest.mark.parametrize(
    ("epochs", "complete_part", "first_complete"),
    [
        (8, 0.125, 7),
        (10, 0.125, 8),
        (100, 0.125, 87),
        (3, 0.1, 2),
        (30, 0.1, 27),
        (7, 0.0, 7),
        (5, 1.0, 0),
        (1, 0.01, 0),
    ],
)
def test_the_last_epochs_are_complete_and_weigh_one(epochs, complete_part, first_complete):
    ordering = go.InfoBatch(epochs, ratio=0.9, complete_part=complete_part)
    scores = torch.arange(300.0)
    for epoch in range(epochs + 2):
        order, weights = drawn(ordering, epoch=epoch, scores=scores)
        if epoch >= first_complete:
            assert sorted(order) == list(range(300))
            assert weights is None
        else:
            assert len(order) < 300
            assert max(weights) == pytest.approx(10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_scores_all_stay(dtype):
    for value in (0.1, 0.7, 1e-30, 3.3e7):
        order, weights = drawn(go.InfoBatch(10, ratio=0.9), scores=torch.full((1001,), value, dtype=dtype))
        assert len(order) == 1001
        assert set(weights) == {1.0}


def losses(epoch, batch):
    return torch.tensor([(i * 7 + epoch) % 11 / 11 for i in batch])


@pytest.mark.parametrize("labels", [None, ([0, 1, 1] * 10)[:29]])
@pytest.mark.parametrize("wrap", [lambda ordering: ordering, go.FlipFlop])
def test_a_run_by_remembered_losses(wrap, labels):
    """The weights follow the losses that made the plan, and are reset in the final part.

    Complete epochs end with a batch of one example here. So shorter ones may, too: nothing is filled up.
    """
    sampler = go.OrderedSampler(29, 4, ordering=wrap(go.InfoBatch(8, complete_part=0.25)), labels=labels)
    remembered = torch.zeros(29)
    for epoch in range(8):
        sampler.set_epoch(epoch)
        if wrap is not go.FlipFlop or epoch % 2 == 0:
            used = remembered.clone()
        seen = []
        loader = DataLoader(range(29), sampler.loader_batch_size, sampler=sampler)
        assert sampler.num_steps(epoch, epoch + 1) == len(loader)
        for batch in loader:
            for i, weight in zip(batch.tolist(), sampler.weights.tolist(), strict=True):
                low = used[i] < used.mean()
                is_pruned_epoch = 1 <= epoch < 6 and (wrap is not go.FlipFlop or epoch > 1)
                assert weight == (2.0 if low and is_pruned_epoch else 1.0)
                seen.append(i)
            remembered[batch] = losses(epoch, batch.tolist())
            sampler.step(losses(epoch, batch.tolist()))
        assert len(set(seen)) == len(seen)
        if is_pruned_epoch:
            assert len(seen) < 29
            assert {i for i in range(29) if used[i] >= used.mean()} <= set(seen)
        else:
            assert len(seen) == 29


def test_a_class_may_vanish_for_an_epoch():
    labels = [0] * 9 + [1]
    scores = torch.tensor([2.0] * 9 + [1.0])
    sampler = go.OrderedSampler(10, 3, ordering=go.InfoBatch(1000), labels=labels)
    for epoch in range(20):
        sampler.set_epoch(epoch, scores=scores)
        assert len(list(sampler)) == 9


def test_the_steps_of_an_epoch_that_is_not_planned_are_refused():
    sampler = go.OrderedSampler(10, 2, ordering=go.InfoBatch(8), start_epoch=2)
    assert sampler.num_steps(0, 2) == 10
    with pytest.raises(ValueError, match=r"epoch 2.*set_epoch"):
        sampler.num_steps(0, 3)
    sampler.set_epoch(2, scores=SCORES)
    assert sampler.num_steps(0, 3) == 10 + math.ceil(len(sampler) / 2)


def test_the_weighted_sum_of_a_revisited_epoch_is_right_on_average():
    """Up to one example, because the number of easy examples that are visited is rounded down."""
    values = torch.arange(400.0)
    sums = []
    for seed in range(200):
        order, weights = drawn(go.Revisiting(go.InfoBatch(100, ratio=0.4), 4), seed, scores=values)
        sums.append(sum(values[i].item() * weight for i, weight in zip(order, weights, strict=True)))
    one = 200 / 0.6
    assert abs(np.mean(sums) - values.sum().item()) < one + 4 * np.std(sums) / math.sqrt(200)
    assert one < 0.005 * values.sum()

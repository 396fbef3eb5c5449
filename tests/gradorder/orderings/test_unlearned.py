import math

import pytest
import torch

import gradorder as go
from gradorder.orderings.ordering import epoch_generator

LEARNED, HARD = 0.02, 2.0


def visited(losses, *, epoch=0, ordering=None, known=None):
    generator = epoch_generator(0, epoch)
    request = go.Request(epoch, len(losses), generator, scores=losses, known=known)
    return (ordering or go.Unlearned()).order(request).indices.tolist()


def by_the_rule(losses, epoch, probability=0.85, share=0.25, every=4):
    """Example by example, as the docstring says."""
    mean, everybody = sum(losses) / len(losses), range(len(losses))
    learned = {i for i in everybody if losses[i] < min(-math.log(probability), share * mean)}
    off = {i for i in everybody if losses[i] > math.log(2)}
    wrong = {i for i in off if losses[i] > math.log(10)}
    if not learned or 2 * len(off) > len(losses) or 3 * len(wrong) < len(off) or 20 * len(wrong) < len(losses):
        wrong = set()
    place = torch.randperm(len(losses), generator=torch.Generator().manual_seed(len(losses))).argsort().tolist()
    turn = {i for i in everybody if place[i] % every == epoch % every}
    return (set(everybody) - learned - {i for i in wrong if place[i] % 3 != epoch % 3}) | turn


@pytest.mark.parametrize("epoch", [0, 3, 8, 13])
@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("power", [1, 4, 12])
def test_it_visits_what_the_rule_says(epoch, scale, power):
    losses = scale * torch.rand(101, generator=torch.Generator().manual_seed(epoch), dtype=torch.float64) ** power
    order = visited(losses, epoch=epoch)
    assert len(order) == len(set(order))
    assert set(order) == by_the_rule(losses.tolist(), epoch)


@pytest.mark.parametrize(
    "losses", [torch.zeros(50), torch.ones(50), torch.linspace(1.0, 2.0, 50), torch.full((50,), 1e-6)]
)
def test_where_nothing_is_learned_it_is_random_reshuffling_to_the_bit(losses):
    for epoch in range(3):
        shuffled = go.Shuffled()(None, epoch=epoch, generator=epoch_generator(0, epoch), num_examples=50)
        assert visited(losses, epoch=epoch) == shuffled.tolist()


def test_what_stays_is_in_the_order_of_random_reshuffling():
    losses = torch.where(torch.arange(100) % 3 == 0, HARD, LEARNED)
    order = visited(losses, epoch=5)
    shuffled = go.Shuffled()(None, epoch=5, generator=epoch_generator(0, 5), num_examples=100).tolist()
    assert order == [i for i in shuffled if i in set(order)]
    assert len(order) < 100


def test_every_example_comes_back():
    losses = torch.cat([torch.full((80,), LEARNED), torch.full((20,), HARD)])
    ordering = go.Unlearned(every=5)
    assert set().union(*(visited(losses, epoch=epoch, ordering=ordering) for epoch in range(7, 12))) == set(range(100))
    assert 20 < len(visited(losses, epoch=7, ordering=ordering)) < 50


def test_a_loss_is_learned_by_its_probability_and_beside_the_others():
    nearly, hard = torch.full((10,), -math.log(0.86)), torch.full((10,), 2.0)
    others = go.Unlearned(every=1000)
    assert set(visited(torch.cat([nearly, hard]), epoch=999, ordering=others)) == set(range(10, 20))
    not_quite = torch.full((10,), -math.log(0.84))
    assert len(visited(torch.cat([not_quite, hard]), epoch=999, ordering=others)) == 20
    # small numbers, but not beside the others: another unit of the loss changes nothing
    assert len(visited(torch.cat([0.01 * nearly, 0.01 * 2 * nearly]), epoch=999, ordering=others)) == 20


def with_wrong_labels(*, wrong, off, learned):
    return torch.tensor([8.0] * wrong + [1.0] * off + [LEARNED] * learned)


def test_what_looks_wrong_comes_every_third_epoch():
    losses = with_wrong_labels(wrong=120, off=200, learned=680)
    ordering = go.Unlearned(every=10_000)
    seen = [set(visited(losses, epoch=epoch, ordering=ordering)) for epoch in range(9000, 9003)]
    assert all(epoch >= set(range(120, 320)) for epoch in seen)
    wrong = [epoch & set(range(120)) for epoch in seen]
    assert sum(map(len, wrong)) == 120
    assert set().union(*wrong) == set(range(120))
    assert all(20 < len(each) < 60 for each in wrong)


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param(with_wrong_labels(wrong=4, off=2, learned=94), id="too few"),
        pytest.param(with_wrong_labels(wrong=12, off=30, learned=58), id="most of what is off is close"),
        pytest.param(with_wrong_labels(wrong=30, off=30, learned=40), id="most is off"),
    ],
)
def test_without_wrong_labels_the_hardest_are_visited_in_every_epoch(losses):
    hard = set((losses > LEARNED).nonzero().flatten().tolist())
    assert all(set(visited(losses, epoch=epoch)) >= hard for epoch in range(8))


@pytest.mark.parametrize("smallest", [0.5, -3.0])
def test_nothing_looks_wrong_where_nothing_is_learned(smallest):
    losses = torch.full((100,), smallest)
    losses[:20] = 8.0
    assert len(visited(losses, epoch=1)) == 100


def test_what_was_never_scored_is_visited_first():
    losses = torch.full((40,), LEARNED)
    losses[:20] = HARD
    known = torch.ones(40, dtype=torch.bool)
    known[[25, 33]] = False
    assert set(visited(losses, epoch=999, known=known)[:2]) == {25, 33}


def test_negative_losses_have_no_small_ones():
    losses = torch.linspace(-1.0, 10.0, 30)
    assert len(visited(losses)) == 30


@pytest.mark.parametrize("num_replicas", [2, 3])
def test_processes_share_every_epoch(num_replicas):
    """An epoch of any length can be cut: examples that would have waited fill a last batch that is too small."""
    lengths = set()
    for seed in range(12):
        for num_hard in range(20, 32):
            losses = torch.full((120,), LEARNED)
            losses[:num_hard] = HARD
            sampler = go.OrderedSampler(
                120, 6, ordering=go.Unlearned(every=100), num_replicas=num_replicas, rank=0, seed=seed
            )
            sampler.set_epoch(99, scores=losses)
            lengths.add(sampler.total_size % 6)
    assert lengths == {tail for tail in range(6) if tail == 0 or tail >= num_replicas}


def test_what_does_not_go_with_it_is_refused():
    with pytest.raises(ValueError, match=r"keep must not be given with Unlearned"):
        go.OrderedSampler(10, 2, ordering=go.Unlearned(), keep=0.5)
    sampler = go.OrderedSampler(10, 2, ordering=go.Unlearned(), start_epoch=1)
    with pytest.raises(ValueError, match=r"steps of epoch 1 are not known before set_epoch\(1\).*go\.ProgressLR"):
        sampler.num_steps(0, 3)


@pytest.mark.parametrize("name", ["probability", "share"])
@pytest.mark.parametrize("value", [0, 1, -0.5, math.nan, "high"])
def test_bad_numbers_are_named(name, value):
    with pytest.raises(ValueError, match=rf"{name} must be in \(0, 1\), got {value!r}"):
        go.Unlearned(**{name: value})


def test_of_very_few_examples_no_epoch_is_empty():
    """One is learned, the other looks wrong, and neither's turn has come."""
    order = go.Unlearned()(torch.tensor([0.0, 3.0]), epoch=2, generator=torch.Generator().manual_seed(0))
    assert sorted(order.tolist()) == [0, 1]


def test_without_any_score_nothing_is_skipped():
    assert len(visited(torch.zeros(8), known=torch.zeros(8, dtype=torch.bool))) == 8

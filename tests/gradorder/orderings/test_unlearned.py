import math

import pytest
import torch

import gradorder as go
from gradorder.orderings.ordering import epoch_generator

FITTED, HARD = 0.02, 2.0


def visited(losses, *, epoch=0, ordering=None, known=None):
    generator = epoch_generator(0, epoch)
    request = go.Request(epoch, len(losses), generator, scores=losses, known=known)
    return (ordering or go.Unlearned()).order(request).indices.tolist()


def by_the_rule(losses, epoch, share=0.25, every=4):
    """Example by example, as the docstring says."""
    mean, everybody = sum(losses) / len(losses), range(len(losses))
    fitted = {i for i in everybody if losses[i] < share * mean}
    place = torch.randperm(len(losses), generator=torch.Generator().manual_seed(len(losses))).argsort().tolist()
    return (set(everybody) - fitted) | {i for i in everybody if place[i] % every == epoch % every}


@pytest.mark.parametrize("epoch", [0, 3, 8, 13])
@pytest.mark.parametrize("power", [1, 4, 12])
def test_it_visits_the_examples_of_the_rule(epoch, power):
    losses = torch.rand(101, generator=torch.Generator().manual_seed(epoch), dtype=torch.float64) ** power
    order = visited(losses, epoch=epoch)
    assert len(order) == len(set(order))
    assert set(order) == by_the_rule(losses.tolist(), epoch)


@pytest.mark.parametrize("unit", [0.01, 100.0, 1e-6])
def test_the_unit_of_the_loss_does_not_matter(unit):
    losses = torch.rand(500, generator=torch.Generator().manual_seed(1)) ** 6
    for epoch in range(4):
        assert visited(unit * losses, epoch=epoch) == visited(losses, epoch=epoch)


@pytest.mark.parametrize(
    "losses", [torch.zeros(50), torch.ones(50), torch.linspace(1.0, 2.0, 50), torch.full((50,), 1e-6)]
)
def test_if_nothing_is_fitted_it_is_random_reshuffling_to_the_bit(losses):
    for epoch in range(3):
        shuffled = go.Shuffled()(None, epoch=epoch, generator=epoch_generator(0, epoch), num_examples=50)
        assert visited(losses, epoch=epoch) == shuffled.tolist()


def test_visited_examples_are_in_the_order_of_random_reshuffling():
    losses = torch.where(torch.arange(100) % 3 == 0, HARD, FITTED)
    order = visited(losses, epoch=5)
    shuffled = go.Shuffled()(None, epoch=5, generator=epoch_generator(0, 5), num_examples=100).tolist()
    assert order == [i for i in shuffled if i in set(order)]
    assert len(order) < 100


def test_every_example_comes_back():
    losses = torch.cat([torch.full((80,), FITTED), torch.full((20,), HARD)])
    ordering = go.Unlearned(every=5)
    assert set().union(*(visited(losses, epoch=epoch, ordering=ordering) for epoch in range(7, 12))) == set(range(100))
    assert 20 < len(visited(losses, epoch=7, ordering=ordering)) < 50


def test_examples_that_were_never_scored_are_visited_first():
    losses = torch.full((40,), FITTED)
    losses[:20] = HARD
    known = torch.ones(40, dtype=torch.bool)
    known[[25, 33]] = False
    assert set(visited(losses, epoch=999, known=known)[:2]) == {25, 33}
    assert len(visited(torch.zeros(8), known=torch.zeros(8, dtype=torch.bool))) == 8


def test_with_negative_losses_nothing_is_fitted():
    assert len(visited(torch.linspace(-1.0, 10.0, 30))) == 30


@pytest.mark.parametrize("num_replicas", [2, 3])
def test_processes_share_every_epoch(num_replicas):
    """Skipped examples fill a last batch with fewer than two examples for each process."""
    lengths = set()
    for seed in range(12):
        for num_hard in range(20, 32):
            losses = torch.full((120,), FITTED)
            losses[:num_hard] = HARD
            sampler = go.OrderedSampler(
                120, 6, ordering=go.Unlearned(every=100), num_replicas=num_replicas, rank=0, seed=seed
            )
            sampler.set_epoch(99, scores=losses)
            lengths.add(sampler.total_size % 6)
    assert lengths == {tail for tail in range(6) if tail == 0 or tail >= 2 * num_replicas}


def test_unsupported_settings_are_refused():
    with pytest.raises(ValueError, match="keep"):
        go.OrderedSampler(10, 2, ordering=go.Unlearned(), keep=0.5)
    sampler = go.OrderedSampler(10, 2, ordering=go.Unlearned(), start_epoch=1)
    with pytest.raises(go.UnknownStepsError, match="ProgressLR"):
        sampler.num_steps(0, 3)


@pytest.mark.parametrize("value", [0, 1, -0.5, math.nan, "high"])
def test_a_bad_share_is_refused(value):
    with pytest.raises(ValueError, match="share"):
        go.Unlearned(share=value)


def test_no_epoch_is_empty_with_very_few_examples():
    order = go.Unlearned(every=100)(torch.tensor([0.0, 3.0]), epoch=50, generator=torch.Generator().manual_seed(0))
    assert len(order) > 0


# The audit ----------------------------------------------------------------------------------------------------------


def run_of(losses_at_a_visit, *, epochs=12, ordering=None, size=400):
    """The lengths of the epochs, if every visit of an example in an epoch gives this loss."""
    sampler = go.OrderedSampler(size, 40, ordering=ordering or go.Unlearned(), start_epoch=1)
    lengths = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        lengths.append(len(sampler))
        for batch in sampler.loader():
            sampler.step(losses_at_a_visit(batch, epoch))
    return sampler, lengths


def lasting(indices, epoch):
    """Three quarters of the examples are fitted, and stay so."""
    del epoch
    return torch.where(indices % 4 > 0, FITTED, HARD)


def accidental(indices, epoch):
    """At every visit, other examples have a small loss."""
    return torch.where(indices * 7919 % 1009 * (epoch + 3) % 97 > 48, FITTED, HARD)


def test_it_goes_on_skipping_examples_that_stay_fitted():
    _, lengths = run_of(lasting)
    assert all(100 < length < 220 for length in lengths[1:])


def test_it_stops_skipping_if_a_small_loss_does_not_last():
    _, lengths = run_of(accidental, epochs=16)
    assert lengths[1] < 300  # before the first audit
    assert min(lengths[10:]) == 400


def test_it_stops_skipping_if_a_loss_of_zero_does_not_last():
    """As with a hinge loss: a bound that is only halved would never be below zero."""
    _, lengths = run_of(lambda *visit: torch.where(accidental(*visit) == FITTED, 0.0, HARD), epochs=30)
    assert lengths[1] < 300
    assert min(lengths[20:]) == 400


def test_it_skips_losses_of_zero_again_if_they_stay_zero_later():
    def losses(indices, epoch):
        return torch.where((accidental if epoch < 15 else lasting)(indices, epoch) == FITTED, 0.0, HARD)

    _, lengths = run_of(losses, epochs=40)
    assert lengths[15] == 400
    assert max(lengths[-6:]) < 260


def test_the_audit_leaves_out_examples_that_were_never_scored():
    """A stand-in for their score, the largest one, would raise the mean loss that the audit compares with."""
    size = 400
    sampler = go.OrderedSampler(size, 40, ordering=go.Unlearned(), start_epoch=1)
    lasting_losses = torch.where(torch.arange(size) % 4 > 0, FITTED, HARD)
    sampler.set_epoch(1, scores=lasting_losses)
    returning = sorted(set(range(size)) & {i for i in sampler if i % 4 > 0})
    losses = lasting_losses.clone()
    losses[0], losses[returning] = 100.0, 0.5  # the mean loss is about 0.8, so 0.5 is large
    losses[4:200:4] = math.nan
    sampler._memory.restore(losses)
    sampler.set_epoch(2)
    assert sampler.state_dict()["carried_halvings"] == 1


def test_it_skips_again_if_fitted_examples_stay_fitted_later():
    _, lengths = run_of(lambda indices, epoch: (accidental if epoch < 6 else lasting)(indices, epoch), epochs=24)
    assert max(lengths[-6:]) < 260


@pytest.mark.parametrize("unit", [0.01, 100.0])
def test_the_audit_does_not_depend_on_the_unit(unit):
    def mixed(indices, epoch):
        return (0.1 + indices % 7) ** 4 / (1 + epoch) + 5 * (indices * (epoch + 1) % 11 == 0)

    for losses in (mixed, accidental):
        assert run_of(lambda *visit, losses=losses: unit * losses(*visit))[1] == run_of(losses)[1]


@pytest.mark.parametrize("ordering", [go.Unlearned(), go.FlipFlop(go.Unlearned())])
@pytest.mark.parametrize("stop", [2, 3, 5])
def test_the_audit_is_resumed(ordering, stop):
    def losses(indices, epoch):
        return (accidental if epoch % 5 < 3 else lasting)(indices, epoch)

    whole, lengths = run_of(losses, ordering=ordering)
    first, before = run_of(losses, ordering=ordering, epochs=stop)
    state = first.state_dict()
    resumed = go.OrderedSampler(400, 40, ordering=ordering, start_epoch=1)
    resumed.load_state_dict(state)
    for epoch in range(stop, 12):
        resumed.set_epoch(epoch)
        before.append(len(resumed))
        for batch in resumed.loader():
            resumed.step(losses(batch, epoch))
    assert before == lengths
    assert list(resumed) == list(whole)


def test_planning_an_epoch_twice_is_one_audit():
    sampler, lengths = run_of(accidental, epochs=3)
    again, _ = run_of(accidental, epochs=2)
    again.set_epoch(2)
    again.set_epoch(2, scores=again.state_dict()["remembered_scores"])
    again.set_epoch(2, scores=again.state_dict()["remembered_scores"])
    assert len(again) == lengths[2]
    assert list(again) == list(sampler)


@pytest.mark.parametrize(
    "broken",
    [{"carried_halvings": -1}, {"carried_epoch": 0.5}, {"carried_returning": torch.zeros(3, dtype=torch.uint8)}],
)
def test_a_broken_state_of_the_audit_is_refused(broken):
    sampler, _ = run_of(accidental, epochs=4)
    state = {**sampler.state_dict(), **broken}
    with pytest.raises(ValueError, match=r"audit|bit"):
        sampler.load_state_dict(state)

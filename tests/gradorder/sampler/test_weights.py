"""Weights go with their examples: through layouts, classes, reversals, ranks and states."""

from dataclasses import dataclass

import pytest
import torch
from torch.utils.data import BatchSampler

import gradorder as go

SIZE = 20
SCORES = torch.linspace(1, 3, SIZE).roll(7)
LABELS = [0, 1, 1, 2] * 5
SETTINGS = {
    "contiguous": {},
    "dealt": {"layout": "dealt"},
    "shuffled": {"layout": "shuffled"},
    "drop_last": {"drop_last": True},
    "labels": {"labels": LABELS},
    "labels, dealt": {"labels": LABELS, "layout": "dealt"},
    "labels, shuffled": {"labels": LABELS, "layout": "shuffled"},
}
every_setting = pytest.mark.parametrize("name", SETTINGS)


@dataclass(frozen=True)
class Numbered(go.Ordering):
    """Weighs every example by its number, so that a weight says whose it is."""

    needs_scores = True

    def order(self, request):
        kept = request.kept(torch.argsort(request.scores, descending=True, stable=True))
        return go.Order(kept, self.weights(kept))

    def weights(self, kept):
        return kept.double()


def new(**settings):
    return go.OrderedSampler(SIZE, 4, **{"ordering": go.Descending(), "keep": 0.7, **settings})


def seen(sampler):
    """The batches of this process as (example, weight)."""
    result = []
    for batch in BatchSampler(sampler, sampler.loader_batch_size, drop_last=False):
        result.append(list(zip(batch, sampler.weights.tolist(), strict=True)))
        sampler.step()
    return result


@every_setting
@pytest.mark.parametrize("ordering", [Numbered(), go.FlipFlop(Numbered())], ids=str)
def test_every_example_has_its_own_weight(name, ordering):
    sampler = new(ordering=ordering, **SETTINGS[name])
    plain = new(ordering=go.FlipFlop(go.Descending()) if ordering != Numbered() else go.Descending(), **SETTINGS[name])
    for epoch in range(3):
        for each in (sampler, plain):
            each.set_epoch(epoch, scores=SCORES)
        assert sampler.weights.dtype == torch.float32
        pairs = sum(seen(sampler), [])
        assert all(weight == example for example, weight in pairs)
        assert [example for example, _ in pairs] == list(plain)  # weights do not move anything


@pytest.mark.parametrize("num_replicas", [2, 4])
def test_every_rank_has_the_weights_of_its_slice(num_replicas):
    for rank in range(num_replicas):
        sampler = new(ordering=Numbered(), keep=0.7, num_replicas=num_replicas, rank=rank, drop_last=True)
        sampler.set_epoch(0, scores=SCORES)
        assert all(weight == example for example, weight in sum(seen(sampler), []))


def test_random_epochs_weigh_one():
    sampler = new(ordering=Numbered(), start_epoch=1)
    for epoch in range(2):
        sampler.set_epoch(epoch, scores=SCORES)
        weights = [weight for _, weight in sum(seen(sampler), [])]
        assert (set(weights) == {1.0}) == (epoch == 0)


def test_weights_belong_to_the_next_step_and_are_a_copy():
    sampler = new(ordering=Numbered())
    sampler.set_epoch(0, scores=SCORES)
    batches = list(BatchSampler(sampler, 4, drop_last=False))  # everything prefetched
    for batch in batches:
        sampler.weights.zero_()
        assert sampler.weights.tolist() == batch
        sampler.step()
    with pytest.raises(go.StepError, match="epoch 0 is over"):
        _ = sampler.weights


@every_setting
def test_weights_survive_an_interruption(name):
    settings = {"ordering": go.FlipFlop(go.PlackettLuce(unbiased=True)), **SETTINGS[name]}
    straight = new(**settings)
    for epoch in range(3):
        straight.set_epoch(epoch, scores=SCORES)
        state = straight.state_dict()
        expected = seen(straight)
        assert any(weight != 1 for _, weight in sum(expected, []))
        for stop in range(len(expected)):
            resumed = new(**settings)
            resumed.load_state_dict({**state, "consumed": stop})
            assert seen(resumed) == expected[stop:]


def test_a_state_without_weights_still_loads_and_unweighted_states_hold_none():
    sampler = new()
    sampler.set_epoch(0, scores=SCORES)
    assert "weights" not in sampler.state_dict()
    weighted = new(ordering=Numbered())
    weighted.set_epoch(0, scores=SCORES)
    state = weighted.state_dict()
    assert state["weights"].tolist() == state["sequence"].tolist()
    with pytest.raises(ValueError, match=r"state.*\(3,\)"):
        sampler.load_state_dict({**state, "weights": torch.ones(3)})
    weighted.load_state_dict(sampler.state_dict())
    assert weighted.weights.tolist() == [1.0] * 4


def test_ranks_with_other_weights_do_not_share_a_fingerprint():
    one, other = (new(ordering=Numbered()) for _ in range(2))
    for sampler in (one, other):
        sampler.set_epoch(0, scores=SCORES)
    assert one._position.plan.fingerprint == other._position.plan.fingerprint
    state = one.state_dict()
    other.load_state_dict({**state, "weights": state["weights"] + 1})
    assert one._position.plan.fingerprint != other._position.plan.fingerprint

"""GraB against its definition, its bound, and through interruptions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from states import saved_and_loaded
from torch.utils.data import BatchSampler

import gradorder as go

KINDS = ["mean", "pair"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def norm(vector):
    return sum(x * x for x in vector)


def plus(one, other, sign=1):
    return [x + sign * y for x, y in zip(one, other, strict=True)]


def balanced_slowly(kind, order, gradients, mean):
    """The next order and the mean gradient, one example at a time; gradients by example, as lists of numbers."""
    walk, front, back = [0] * len(gradients[0]), [], []

    def goes_to_front(step):
        nonlocal walk
        adds = norm(plus(walk, step)) <= norm(plus(walk, step, -1))
        walk = plus(walk, step, 1 if adds else -1)
        return adds

    if kind == "mean":
        for i in order:
            (front if goes_to_front(plus(gradients[i], mean, -1)) else back).append(i)
    else:
        for first, second in zip(order[::2], order[1::2], strict=False):
            in_turn = goes_to_front(plus(gradients[first], gradients[second], -1))
            front.append(first if in_turn else second)
            back.append(second if in_turn else first)
        if len(order) % 2:
            front.append(order[-1])
    total = [sum(column) for column in zip(*[gradients[i] for i in order], strict=True)]
    missing = sorted(set(range(len(gradients))) - set(order))
    return front + missing + back[::-1], [x / len(order) for x in total]


def sampler(kind, size=12, batch_size=4, **settings):
    return go.OrderedSampler(size, batch_size, ordering=go.GradientBalancing(kind), **settings)


def train(sampler, gradients, epochs, stop_after=None):
    """The order of every epoch, with the same gradients in all of them (or a function of the epoch)."""
    orders = []
    for epoch in epochs:
        sampler.set_epoch(epoch)
        orders.append([])
        now = gradients(epoch) if callable(gradients) else gradients
        for batch in BatchSampler(sampler, sampler.loader_batch_size, drop_last=False):
            orders[-1] += batch
            sampler.step(gradients=now[batch])
            if sum(map(len, orders)) == stop_after:
                return orders
    return orders


@every_kind
@given(
    size=st.integers(1, 14),
    batch_size=st.integers(1, 6),
    width=st.integers(1, 4),
    seed=st.integers(0, 2**30),
    drop_last=st.booleans(),
)
def test_it_is_the_slow_walk(kind, size, batch_size, width, seed, drop_last):
    """On whole numbers, scaled so that means are whole too: ties are ties, and nothing is rounded."""
    if drop_last and batch_size > size:
        drop_last = False
    generator = torch.Generator().manual_seed(seed)
    num_seen = size - size % batch_size if drop_last else size
    gradients = [num_seen * torch.randint(-2, 3, (size, width), generator=generator).double() for _ in range(4)]
    one = sampler(kind, size, batch_size, drop_last=drop_last)
    orders = train(one, lambda epoch: gradients[epoch], range(4))
    mean = [0] * width
    for epoch in range(3):
        expected, mean = balanced_slowly(kind, orders[epoch], gradients[epoch].tolist(), mean)
        assert orders[epoch + 1] == expected[:num_seen]


@every_kind
def test_partial_sums_are_far_below_those_of_random_orders(kind):
    gradients = torch.randn(1024, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 3
    centred = gradients - gradients.mean(0)

    def largest_sum(order):
        return centred[order].cumsum(0).norm(dim=1).max().item()

    balanced = train(sampler(kind, 1024, 64), gradients, range(8))[-1]
    randoms = [largest_sum(torch.randperm(1024, generator=torch.Generator().manual_seed(seed))) for seed in range(20)]
    assert largest_sum(balanced) < min(randoms) / 3


# ------------------------------------------------------------------------------------------------ the sampler


@every_kind
@pytest.mark.parametrize("settings", [{}, {"start_epoch": 1}, {"drop_last": True, "batch_size": 5}], ids=str)
def test_interrupted_after_any_step_it_goes_on_as_if_nothing_had_happened(kind, settings):
    gradients = [torch.randn(13, 6, generator=torch.Generator().manual_seed(epoch)) for epoch in range(4)]

    def run(sampler, stop_after=None):
        seen = []
        for epoch in range(sampler.epoch, 4):
            sampler.set_epoch(epoch)
            for batch in BatchSampler(sampler, sampler.loader_batch_size, drop_last=False):
                seen.append((epoch, batch))
                sampler.step(torch.rand(len(batch)), gradients=gradients[epoch][batch])
                if len(seen) == stop_after:
                    return seen
        return seen

    def new():
        return sampler(
            kind, 13, settings.get("batch_size", 3), **{k: v for k, v in settings.items() if k != "batch_size"}
        )

    straight = run(new())
    assert straight[-1][0] == 3
    for stop in range(len(straight) + 1):
        interrupted = new()
        seen = run(interrupted, stop) if stop else []
        state = saved_and_loaded(interrupted.state_dict())
        assert all(isinstance(value, torch.Tensor | int | float | bool) for value in state.values())
        resumed = new()
        resumed.load_state_dict(state)
        assert seen + run(resumed) == straight, f"stopped after {stop} steps"


@every_kind
def test_iterating_again_learns_the_epoch_anew(kind):
    gradients = torch.randn(12, 3)
    straight = train(sampler(kind), gradients, range(3))
    again = sampler(kind)
    train(again, gradients, [0], stop_after=8)  # broken off, and once more from the start
    assert train(again, gradients, range(3)) == straight


@every_kind
def test_a_broken_epoch_warns_and_keeps_the_order(kind):
    gradients = torch.randn(12, 3)
    one = sampler(kind)
    learned = train(one, gradients, range(3))[-1]
    straight = sampler(kind)
    after_next = train(straight, gradients, range(4))[-1]
    one.set_epoch(3)
    assert list(one) == after_next
    iterator = iter(BatchSampler(one, 4, drop_last=False))
    one.step(gradients=gradients[next(iterator)])
    with pytest.warns(UserWarning, match=r"epoch 3.*4 of 12") as told:
        one.set_epoch(4)
    for each in told:
        assert each.filename == __file__  # at the line that ended the epoch, not inside the library
    assert (one.state_dict()["carried_placed"] == -1).all()  # what was seen of the broken epoch is forgotten
    assert list(one) == after_next != learned


def test_an_epoch_without_any_step_warns_too():
    one = sampler("mean")
    list(one)
    with pytest.warns(UserWarning, match=r"epoch 0.*0 of 12"):
        one.set_epoch(1)
    one.set_epoch(2)  # nothing of epoch 1 was handed out: skipping it is no mistake


def test_before_its_start_it_does_not_learn_and_needs_no_gradients():
    one, shuffled = sampler("mean", start_epoch=2), go.OrderedSampler(12, 4, ordering=go.Shuffled())
    for epoch in range(3):
        for each in (one, shuffled):
            each.set_epoch(epoch)
        assert list(one) == list(shuffled)
        for batch in BatchSampler(one, 4, drop_last=False):
            one.step(gradients=None if epoch < 2 else torch.randn(len(batch), 2))
    one.set_epoch(3)
    shuffled.set_epoch(3)
    assert list(one) != list(shuffled)


def test_bad_gradients_are_refused_and_change_nothing():
    one = sampler("mean")
    iterator = iter(BatchSampler(one, 4, drop_last=False))
    batch = next(iterator)
    nan = torch.zeros(4, 3)
    nan[2, 1] = math.nan
    for bad, error, message in [
        (None, ValueError, "gradients.*GradientBalancing"),
        (
            torch.rand(3, 5),
            ValueError,
            r"gradients.*batch 0.*\(4, P\).*\(3, 5\)",
        ),
        (torch.rand(4), ValueError, r"must have shape \(4, P\).*got \(4,\)"),
        (torch.rand(4, 0), ValueError, r"got \(4, 0\)"),
        (torch.ones(4, 3, dtype=torch.int64), TypeError, "floating point, got torch.int64"),
        ([[1.0]] * 4, TypeError, "floating point, got list"),
        (nan, ValueError, f"finite.*1 of 4.*example {batch[2]}"),
    ]:
        with pytest.raises(error, match=message):
            one.step(torch.rand(4), gradients=bad)
    assert not one.state_dict()["is_stepped"]
    assert "remembered_scores" not in one.state_dict()
    one.step(gradients=torch.rand(4, 3))
    next(iterator)
    with pytest.raises(ValueError, match=r"\(4, 3\).*\(4, 2\)"):
        one.step(gradients=torch.rand(4, 2))
    with pytest.raises(go.NonFiniteScoresError):
        one.step(torch.full((4,), math.nan), gradients=torch.rand(4, 3))
    assert one.state_dict()["carried_num_front"] + one.state_dict()["carried_num_back"] == 4


def test_half_precision_is_widened():
    gradients = torch.randn(12, 3).bfloat16()
    assert train(sampler("mean"), gradients, range(3)) == train(sampler("mean"), gradients.float(), range(3))


def test_gradients_are_refused_where_nothing_learns():
    plain = go.OrderedSampler(12, 4, ordering=go.Descending())
    next(iter(plain))
    with pytest.raises(ValueError, match=r"gradients.*Descending"):
        plain.step(gradients=torch.rand(4, 3))


def test_what_does_not_go_with_it_is_refused():
    for settings in (
        {"labels": [0, 1] * 6},
        {"keep": 0.5},
        {"keep": lambda epoch: 1.0},
        {"num_replicas": 2, "rank": 0},
    ):
        with pytest.raises(ValueError, match="labels, keep"):
            sampler("mean", **settings)
    with pytest.raises(ValueError, match=r"layout.*dealt"):
        sampler("mean", layout="dealt")
    for wrapper in (go.FlipFlop, go.Revisiting):
        with pytest.raises(ValueError, match="inner must not carry"):
            wrapper(go.GradientBalancing())
    with pytest.raises(ValueError, match=r"kind.*'median'"):
        go.GradientBalancing("median")


def test_states_of_something_else():
    one = sampler("mean")
    train(one, torch.randn(12, 3), range(2))
    state = one.state_dict()
    with pytest.raises(ValueError, match=r"'mean'.*'pair'"):
        sampler("pair").load_state_dict(state)
    with pytest.raises(ValueError, match="order of 12"):
        sampler("mean").load_state_dict({**state, "carried_order": torch.arange(3)})
    with pytest.raises(ValueError, match="order of 12"):
        sampler("mean").load_state_dict({**state, "carried_order": torch.zeros(12, dtype=torch.int64)})
    with pytest.raises(ValueError, match="num_front"):
        sampler("mean").load_state_dict({**state, "carried_num_front": 1.5})
    shuffled = go.OrderedSampler(12, 4, ordering=go.Shuffled())
    shuffled.load_state_dict(state)  # the epoch goes on, what was learned is not needed
    one.load_state_dict(shuffled.state_dict())  # nothing learned
    with pytest.warns(UserWarning, match=r"epoch 1.*0 of 12"):
        one.set_epoch(2)


def test_a_failed_plan_leaves_what_was_learned():
    gradients = torch.randn(12, 3)
    one = sampler("mean")
    train(one, gradients, [0])
    with pytest.raises(ValueError, match="expected 12, got 5"):
        one.set_epoch(1, scores=torch.rand(5))
    one.set_epoch(1)
    assert list(one) == train(sampler("mean"), gradients, range(2))[1]

import copy
import gc
import math
import pickle

import pytest
import torch

import gradorder as go


def optimizer(rate=0.5):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=rate)


def train(sampler, scheduler, epochs, losses_of=lambda indices: torch.ones(len(indices)), *, stop_after=None):
    """(progress, learning rate) before every step."""
    seen = []
    for epoch in epochs:
        sampler.set_epoch(epoch)
        for indices in sampler.loader(torch.arange(sampler.num_examples)):
            seen.append((sampler.progress, scheduler.get_last_lr()[0]))
            scheduler.optimizer.step()
            sampler.step(losses_of(indices))
            scheduler.step()
            if len(seen) == stop_after:
                return seen
    return seen


def test_progress_counts_steps_where_they_are_known():
    sampler = go.recommended(100, 10, epochs=4, budget=0.6)
    lengths = [sampler.num_steps(epoch, epoch + 1) for epoch in range(4)]
    assert len(set(lengths)) > 1
    seen = train(sampler, go.ProgressLR(optimizer(), sampler), range(4))
    expected = [step / sum(lengths) for step in range(sum(lengths))]
    assert [progress for progress, _ in seen[1:]] == pytest.approx(expected[1:])
    assert sampler.progress == 1


def test_progress_counts_epochs_where_they_are_not():
    sampler = go.recommended(100, 10, epochs=4)
    seen = train(sampler, go.ProgressLR(optimizer(), sampler), range(4), lambda i: torch.where(i % 2 == 0, 0.01, 2.0))
    lengths = [10, 7, 7, 7]  # half is fitted, and a quarter of it comes back in every epoch
    assert len(seen) == sum(lengths)
    expected = [(epoch + step / length) / 4 for epoch, length in enumerate(lengths) for step in range(length)]
    assert [progress for progress, _ in seen[1:]] == pytest.approx(expected[1:])
    assert sampler.progress == 1


def test_the_rate_follows_half_a_cosine_to_zero():
    sampler = go.recommended(60, 10, epochs=2)
    scheduler = go.ProgressLR(optimizer(0.5), sampler)
    rates = [rate for _, rate in train(sampler, scheduler, range(2))]
    assert rates == pytest.approx([0.25 * (1 + math.cos(math.pi * step / 12)) for step in range(12)])
    assert scheduler.get_last_lr() == [0.0]


def test_a_factor_of_ones_own():
    sampler = go.OrderedSampler(20, 10, ordering=go.Shuffled(), epochs=2)
    scheduler = go.ProgressLR(optimizer(1.0), sampler, lambda progress: 1 - progress)
    assert [rate for _, rate in train(sampler, scheduler, range(2))] == pytest.approx([1, 0.75, 0.5, 0.25])


def test_a_step_too_many_changes_nothing():
    sampler = go.recommended(60, 10, epochs=2)
    scheduler = go.ProgressLR(optimizer(), sampler)
    train(sampler, scheduler, range(1))
    before = scheduler.get_last_lr()
    scheduler.step()
    assert scheduler.get_last_lr() == before


@pytest.mark.parametrize("stop_after", [1, 7, 10, 13])
def test_a_resumed_run_goes_on_with_the_same_rates(stop_after, tmp_path):
    def losses_of(indices):
        return torch.where(indices % 3 == 0, 0.01, 2.0)

    straight = go.recommended(100, 10, epochs=3)
    expected = train(straight, go.ProgressLR(optimizer(), straight), range(3), losses_of)

    sampler = go.recommended(100, 10, epochs=3)
    scheduler = go.ProgressLR(optimizer(), sampler)
    seen = train(sampler, scheduler, range(3), losses_of, stop_after=stop_after)
    states = [part.state_dict() for part in (sampler, scheduler, scheduler.optimizer)]
    torch.save(states, tmp_path / "state.pt")

    sampler = go.recommended(100, 10, epochs=3)
    scheduler = go.ProgressLR(optimizer(), sampler)
    for part, state in zip(
        (sampler, scheduler, scheduler.optimizer), torch.load(tmp_path / "state.pt", weights_only=True), strict=True
    ):
        part.load_state_dict(state)
    seen += train(sampler, scheduler, range(sampler.epoch, 3), losses_of)
    assert seen[1:] == expected[1:]


def test_a_sampler_without_epochs_is_refused_at_once():
    sampler = go.OrderedSampler(20, 10, ordering=go.Shuffled())
    with pytest.raises(ValueError, match="epochs"):
        go.ProgressLR(optimizer(), sampler)
    with pytest.raises(TypeError, match=r"sampler.*7"):
        go.ProgressLR(optimizer(), 7)
    with pytest.raises(TypeError, match=r"factor.*0\.5"):
        go.ProgressLR(optimizer(), sampler, 0.5)
    with pytest.raises(ValueError, match=r"epochs.*0"):
        go.OrderedSampler(20, 10, ordering=go.Shuffled(), epochs=0)


# ------------------------------------------------------------------------------------------------ jumps


def test_the_sampler_alone_is_resumed_and_the_rate_follows():
    sampler = go.recommended(100, 10, epochs=4)
    scheduler = go.ProgressLR(optimizer(), sampler)
    train(sampler, scheduler, range(4), stop_after=38)
    expected = scheduler.get_last_lr()
    resumed = go.recommended(100, 10, epochs=4)
    other = go.ProgressLR(optimizer(), resumed)
    resumed.load_state_dict(sampler.state_dict())
    assert other.get_last_lr() == [group["lr"] for group in other.optimizer.param_groups] == expected
    assert 0 < expected[0] < 0.01


def test_the_rate_follows_an_epoch_that_is_set():
    sampler = go.recommended(100, 10, epochs=4)
    rate = torch.tensor(0.5)
    scheduler = go.ProgressLR(torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=rate), sampler)
    sampler.set_epoch(2)
    assert float(scheduler.optimizer.param_groups[0]["lr"]) == pytest.approx(0.25)
    assert scheduler.get_last_lr() == pytest.approx([0.25])


def test_a_scheduler_that_is_gone_is_not_told():
    sampler = go.recommended(100, 10, epochs=4)
    used = optimizer()
    go.ProgressLR(used, sampler)
    gc.collect()
    sampler.set_epoch(2)
    assert used.param_groups[0]["lr"] == 0.5


def test_a_sampler_with_a_scheduler_can_be_copied_and_saved():
    sampler = go.recommended(100, 10, epochs=4)
    scheduler = go.ProgressLR(optimizer(), sampler)
    again = pickle.loads(pickle.dumps(copy.deepcopy(sampler)))  # noqa: S301 - our own
    again.set_epoch(2)
    assert scheduler.get_last_lr() == [0.5]


@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step:UserWarning")  # torch 2.6 about itself
def test_behind_a_warm_up_it_waits_for_its_turn():
    sampler = go.recommended(100, 10, epochs=4)
    used = optimizer()
    warm_up = torch.optim.lr_scheduler.LinearLR(used, 0.1, total_iters=15)
    scheduler = torch.optim.lr_scheduler.SequentialLR(used, [warm_up, go.ProgressLR(used, sampler)], [15])
    rates = [rate for _, rate in train(sampler, scheduler, range(4))]
    assert rates[:15] == pytest.approx([0.5 * (0.1 + 0.9 * step / 15) for step in range(15)])
    assert rates[15:] == pytest.approx([0.25 * (1 + math.cos(math.pi * step / 40)) for step in range(15, 40)])


@pytest.mark.parametrize("factor", [math.nan, math.inf, -0.5, None, True])
def test_a_factor_that_is_no_factor_is_refused(factor):
    sampler = go.recommended(100, 10, epochs=4)
    with pytest.raises(ValueError, match=rf"factor.*{factor!r} at progress 0"):
        go.ProgressLR(optimizer(), sampler, lambda progress: factor)


# ------------------------------------------------------------------------------------------------ beyond the end


@pytest.mark.parametrize("epochs", [range(6), range(1, 5)], ids=["more", "counted from 1"])
def test_an_epoch_beyond_the_end_is_said(epochs):
    sampler = go.OrderedSampler(100, 10, ordering=go.Shuffled(), epochs=4)
    scheduler = go.ProgressLR(optimizer(), sampler)
    with pytest.warns(UserWarning, match=r"epoch 4 .*epochs=4") as said:
        train(sampler, scheduler, epochs)
    assert [each.filename for each in said] == [__file__]  # once, at the user's line


def test_without_epochs_there_is_no_end():
    go.OrderedSampler(20, 10, ordering=go.Shuffled()).set_epoch(1000)


# ------------------------------------------------------------------------------------------------ ready-made shapes


def test_one_cycle_has_the_rates_of_torch():
    """torch counts steps from 0 to T - 1 and turns at step pct_start * T - 1."""
    num_steps, turn = 41, 11
    used = optimizer(0.5)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        used, 0.5, total_steps=num_steps, pct_start=(turn + 1) / num_steps, div_factor=10, cycle_momentum=False
    )
    factor = go.one_cycle(pct_start=turn / (num_steps - 1), div_factor=10)
    for step in range(num_steps):
        assert 0.5 * factor(step / (num_steps - 1)) == pytest.approx(theirs.get_last_lr()[0], rel=1e-6, abs=1e-12)
        used.step()
        if step < num_steps - 1:
            theirs.step()


def test_warm_up_and_cosine_are_those_of_torch_in_turn():
    factor = go.warmup_cosine(0.25, final=0.1)
    assert [factor(step / 40) for step in range(11)] == pytest.approx([step / 10 for step in range(11)])
    used = optimizer(1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(used, 30, eta_min=0.1)
    for step in range(31):
        assert factor((10 + step) / 40) == pytest.approx(theirs.get_last_lr()[0])
        used.step()
        theirs.step()
    assert go.warmup_cosine(0)(0.0) == 1


@pytest.mark.parametrize("value", [math.nan, -0.1, 1, None, True, "0.1"])
def test_a_part_of_the_run_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="warmup must be in"):
        go.warmup_cosine(value)
    with pytest.raises(ValueError, match="pct_start must be in"):
        go.one_cycle(value)


@pytest.mark.parametrize("value", [math.nan, -0.1, math.inf, None, True])
def test_other_bad_numbers_of_shapes_are_refused(value):
    with pytest.raises(ValueError, match="final must be"):
        go.warmup_cosine(final=value)
    for name in ("div_factor", "final_div_factor"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            go.one_cycle(**{name: value})

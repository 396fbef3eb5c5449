import math

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
    lengths = [10, 5, 8, 5]  # half is learned, and in epoch 2 half of it comes back
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
    with pytest.raises(ValueError, match="epochs must be given to the sampler for its progress, got None"):
        go.ProgressLR(optimizer(), sampler)
    with pytest.raises(TypeError, match="sampler must be an OrderedSampler, got 7"):
        go.ProgressLR(optimizer(), 7)
    with pytest.raises(TypeError, match=r"factor must be a function from progress to a number, got 0\.5"):
        go.ProgressLR(optimizer(), sampler, 0.5)
    with pytest.raises(ValueError, match="epochs must be a positive integer, got 0"):
        go.OrderedSampler(20, 10, ordering=go.Shuffled(), epochs=0)

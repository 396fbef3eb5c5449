"""The noise scale against brute force, and against what can be derived for linear regression."""

import math

import processes
import pytest
import torch
from torch import nn

import gradorder as go
from gradorder.norms import reference

BATCH = (torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def observed(model, batch, reduce=torch.mean, penalty=None):
    with go.observe_gradient_norms(model, batch_gradient=True) as seen:
        loss = reduce(seen.losses(go.cross_entropy(model, batch)))
        (loss if penalty is None else loss + penalty(model)).backward()
        return seen.norms, seen.batch_gradient_norm


@pytest.mark.parametrize("reduce", [torch.mean, torch.sum, lambda losses: 1024 * losses.mean()])
def test_the_batch_s_gradient_is_that_of_the_mean_whatever_the_scaling(reduce):
    model = network()
    model[0].weight.grad = torch.ones_like(model[0].weight)  # of a step before: gradients are accumulated
    rows = reference.per_example_gradients(model, BATCH)
    torch.testing.assert_close(observed(model, BATCH, reduce)[1], rows.mean(0).norm())


def test_equal_to_brute_force():
    model = network()
    rows = reference.per_example_gradients(model, BATCH).double()
    trace = rows.var(0).sum()
    noise = go.NoiseScale()
    noise.add(*observed(model, BATCH))
    assert noise.noise == pytest.approx(float(trace), rel=1e-5)
    assert noise.signal == pytest.approx(float(rows.mean(0).square().sum() - trace / 6), rel=1e-4)


def test_what_the_literature_derives_for_linear_regression():
    """y = <x, w*> + e, x normal: tr(S) = (d + 1) |w - w*|^2 + d sigma^2, |G|^2 = |w - w*|^2 for half squared errors."""
    generator = torch.Generator().manual_seed(3)
    width, sigma = 5, 0.5
    distance = torch.tensor([0.6, -0.4, 0.2, 0.0, 0.5])
    model = nn.Linear(width, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(distance)
    noise = go.NoiseScale(smoothing=0.9999)
    with go.observe_gradient_norms(model, batch_gradient=True) as seen:
        for _ in range(1500):
            x = torch.randn(16, width, generator=generator)
            target = sigma * torch.randn(16, generator=generator)
            seen.losses((model(x).flatten() - target).square() / 2).mean().backward()
            noise.update(seen)
    square = float(distance.square().sum())
    expected = (width + 1) + width * sigma**2 / square
    assert noise.value == pytest.approx(expected, rel=0.05)  # 24,000 examples: about 0.02 is noise


def test_a_penalty_on_the_weights_is_noticed():
    """It is no gradient of an example, and the batch's gradient would count it."""
    with pytest.raises(ValueError, match="another term"):
        observed(network(), BATCH, penalty=lambda model: model[0].weight.square().sum())


def test_unequal_weights_are_refused():
    with pytest.raises(ValueError, match="equal weights"):
        observed(network(), BATCH, reduce=lambda losses: (losses * torch.linspace(0.5, 1, 6)).sum())


def test_only_where_it_was_asked_for():
    model = network()
    with go.observe_gradient_norms(model) as seen:
        seen.losses(go.cross_entropy(model, BATCH)).mean().backward()
        with pytest.raises(RuntimeError, match="batch_gradient=True"):
            _ = seen.batch_gradient_norm


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match=r"smoothing.*1"):
        go.NoiseScale(smoothing=1)
    with pytest.raises(ValueError, match="at least two examples"):
        go.NoiseScale().add(torch.ones(1), 1.0)


@pytest.mark.parametrize(
    ("norms", "whole", "message"),
    [
        (torch.tensor([1.0, 2.0, 3.0]), 5.0, r"never larger .* got 5"),
        (torch.tensor([1.0, -2.0, 3.0]), 0.5, r"norms.*-2.0"),
        (torch.tensor([1.0, 2.0]), -0.5, r"batch_gradient_norm.*-0.5"),
        (torch.tensor(1.0), 1.0, "at least two examples"),
    ],
)
def test_numbers_that_cannot_be_are_refused_and_change_nothing(norms, whole, message):
    noise = go.NoiseScale()
    noise.add(torch.ones(4), 0.9)
    before = noise.value
    with pytest.raises(ValueError, match=message):
        noise.add(norms, whole)
    assert (noise.num_steps, noise.value) == (1, before)


def test_equal_gradients_are_no_mistake_whatever_the_rounding():
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        norms = torch.full((7,), 0.1, dtype=dtype)
        go.NoiseScale().add(norms, norms.float().mean() * (1 + 2 * torch.finfo(dtype).eps))
    noise = go.NoiseScale()
    noise.add(torch.zeros(4), 0.0)
    noise.add([1.0, 1.0], 1.0)
    assert noise.num_steps == 2


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_step_that_overflowed_is_left_out_and_counted(bad):
    noise, clean = go.NoiseScale(), go.NoiseScale()
    for _ in range(3):
        for each in (noise, clean):
            each.add(torch.ones(4), 0.9)
        noise.add(torch.tensor([1.0, bad]), 0.5)
        noise.add([bad, bad], bad)
        noise.add([1.0, 1.0], bad)
    assert (noise.value, noise.num_steps) == (clean.value, 3)
    assert "not finite: 9" in str(noise)
    assert "not finite" not in str(clean)


def test_a_training_step_that_overflowed_is_left_out():
    model, noise = network(), go.NoiseScale()
    with go.observe_gradient_norms(model, batch_gradient=True) as seen:
        for scale in (1.0, math.inf, 1.0):
            (scale * seen.losses(go.cross_entropy(model, BATCH)).mean()).backward()
            noise.update(seen)
    assert noise.num_steps == 2


def test_a_gradient_that_is_all_noise_gives_no_number():
    noise = go.NoiseScale()
    noise.add(torch.ones(4), 0.1)  # |g|^2 below what noise alone would give
    assert math.isnan(noise.value)


@pytest.mark.parametrize(("scale", "word"), [(0.5, "smaller batch"), (0.02, "larger batch")])
def test_one_sentence(scale, word):
    noise = go.NoiseScale()
    size = 100
    signal = 1.0
    trace = {0.5: 10.0, 0.02: 1000.0}[scale]
    noise.add(torch.full((size,), math.sqrt(signal + trace)), math.sqrt(signal + trace / size))
    assert noise.value == pytest.approx(trace / signal, rel=1e-3)
    assert word in str(noise)


def steps(noise, *numbers):
    for number in numbers:
        noise.add(torch.tensor([1.0, number]), 0.7 * number)
    return noise


def test_a_resumed_run_is_the_same_run():
    whole = steps(go.NoiseScale(0.9), 1.0, math.inf, 1.1, 0.9, 1.2)
    state = steps(go.NoiseScale(0.9), 1.0, math.inf, 1.1).state_dict()
    assert {type(value) for value in state.values()} <= {int, float}
    resumed = go.NoiseScale(0.9)
    resumed.load_state_dict(state)
    steps(resumed, 0.9, 1.2)
    assert resumed.state_dict() == whole.state_dict()
    assert (resumed.value, resumed.noise, resumed.signal) == (whole.value, whole.noise, whole.signal)
    assert str(resumed) == str(whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": math.nan}, "noise must be"),
        ({"signal": "1"}, "signal must be"),
        ({"num_steps": -1}, "num_steps must be"),
        ({"num_skipped": 1.5}, "num_skipped must be"),
        ({"smoothing": 0.5}, "smoothing must be"),
        ({"extra": 1}, "keys"),
    ],
)
def test_a_state_that_cannot_be_is_refused_and_changes_nothing(change, message):
    noise = steps(go.NoiseScale(), 1.0, 1.1)
    before = noise.state_dict()
    with pytest.raises(ValueError, match=message):
        noise.load_state_dict({**before, **change})
    assert noise.state_dict() == before


def averaged():
    rank = torch.distributed.get_rank()
    noise = go.NoiseScale()
    noise.add(torch.full((4,), [2.0, 4.0][rank]), [1.5, 3.0][rank])
    return noise.noise, noise.signal


def one_overflows():
    rank = torch.distributed.get_rank()
    noise = go.NoiseScale()
    noise.add(torch.ones(4), 0.9)
    noise.add(torch.full((4,), [2.0, math.inf][rank]), 1.5)
    with pytest.raises(ValueError, match=["failed on rank 1", "never larger"][rank]):
        noise.add(torch.ones(4), [0.9, 4.0][rank])
    return noise.num_steps, noise.value, str(noise)


@pytest.mark.slow
def test_a_step_that_overflowed_on_one_process_is_left_out_on_all():
    alone = go.NoiseScale()
    alone.add(torch.ones(4), 0.9)
    for num_steps, value, text in processes.run(one_overflows, 2):
        assert (num_steps, value) == (1, pytest.approx(alone.value))
        assert "not finite: 1" in text


@pytest.mark.slow
def test_processes_average_their_estimates():
    alone = []
    for norm, whole in ((2.0, 1.5), (4.0, 3.0)):
        noise = go.NoiseScale()
        noise.add(torch.full((4,), norm), whole)
        alone.append((noise.noise, noise.signal))
    expected = [sum(column) / 2 for column in zip(*alone, strict=True)]
    for got in processes.run(averaged, 2):
        assert got == pytest.approx(expected)

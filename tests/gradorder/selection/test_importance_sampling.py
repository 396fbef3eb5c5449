import math

import numpy as np
import processes
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import gradorder as go
from gradorder.selection.importance_sampling import draw_by

SKEWED = torch.tensor([1.0] + [0.0] * 99)  # tau = 10


def by_value(model, batch):
    return batch[0]


def switched_on(batch_size, **settings):
    select = go.ImportanceSampling(batch_size, score=by_value, **settings)
    select.observe(SKEWED)
    return select


def tau_by_definition(scores):
    """1 / tau^2 = 1 - ||p - u||^2 / sum p_i^2, as it is written."""
    scores = np.array(scores, dtype=np.float64)
    p = scores / scores.sum()
    return (1 - np.sum((p - 1 / len(p)) ** 2) / np.sum(p**2)) ** -0.5


# ------------------------------------------------------------------------------------------------ the switch


@pytest.mark.parametrize(
    ("scores", "tau"),
    [([1, 1, 1, 1], 1.0), ([1, 0, 0, 0], 2.0), ([3, 1], math.sqrt(5) / 2), ([1, 0], math.sqrt(2)), ([5], 1.0)],
)
def test_tau_of_hand_computed_cases(scores, tau):
    select = go.ImportanceSampling(2)
    select.observe(torch.tensor(scores, dtype=torch.float32))
    assert select.tau == pytest.approx(tau, rel=1e-12)


@given(scores=st.lists(st.floats(0.0009765625, 1000, width=32), min_size=1, max_size=60))
def test_tau_is_the_definition(scores):
    select = go.ImportanceSampling(2)
    select.observe(torch.tensor(scores))
    assert select.tau == pytest.approx(tau_by_definition(scores), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_tau_does_not_depend_on_the_scale(scale):
    select = go.ImportanceSampling(2)
    select.observe(torch.tensor([3.0, 1.0], dtype=torch.float64) * scale)
    assert select.tau == pytest.approx(math.sqrt(5) / 2, rel=1e-12)


def test_tau_is_smoothed_and_starts_at_its_first_value():
    select = go.ImportanceSampling(2, smoothing=0.75)
    assert select.tau == 0
    select.observe(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    assert select.tau == 2.0
    select.observe(torch.tensor([1.0, 1.0]))
    assert select.tau == 0.75 * 2 + 0.25 * 1


@pytest.mark.parametrize("presampled", [3, 6, 9, 12, 30])
def test_it_pays_above_the_threshold_only(presampled):
    threshold = (presampled + 3 * 3) / (3 * 3)
    for tau, expected in [(threshold * 1.001, presampled > 3), (threshold * 0.999, False)]:
        select = go.ImportanceSampling(3)
        select.load_state_dict(select.state_dict() | {"tau": tau})
        assert select.pays(presampled) is expected


def test_it_switches_itself_on_and_off():
    """What decides about a batch is known before it."""
    scored = []

    def score(model, batch):
        scored.append(len(batch[0]))
        return batch[0]

    select = go.ImportanceSampling(4, score=score, smoothing=0.0, probe_every=2)
    skewed, flat = torch.tensor([100.0] + [1e-3] * 11), torch.ones(12)
    for values in (flat, flat, flat, flat):
        select.weighted(nn.Identity(), (values,))
    assert scored == [4, 4]  # every second batch, only what is trained on
    select = go.ImportanceSampling(12, score=score, smoothing=0.0, probe_every=2)
    scored.clear()
    for values in (skewed, skewed.repeat(4), flat.repeat(4), flat.repeat(4), flat.repeat(4)):
        select.weighted(nn.Identity(), (values,))
    # Probed on the 12; on: all 48, twice; then off again, and not the probe's turn until the next but one.
    assert scored == [12, 48, 48, 12]


def test_observe_ends_the_probing_and_no_score_is_computed():
    def score(model, batch):
        raise AssertionError

    select = go.ImportanceSampling(4, score=score)
    for _ in range(30):
        select.observe(torch.ones(4))
        select.weighted(nn.Identity(), (torch.ones(12),))
    silent = go.ImportanceSampling(4, score=score, probe_every=None)
    for _ in range(30):
        silent.weighted(nn.Identity(), (torch.ones(12),))
    assert silent.tau == 0


def test_scores_of_a_batch_drawn_by_them_are_not_learnt_from():
    select = switched_on(4)
    scores = torch.rand(12)
    select.weighted(nn.Identity(), (scores,))
    select.observe(torch.ones(4))
    assert select.tau == pytest.approx(0.9 * 10 + 0.1 * tau_by_definition(scores.tolist()))


# ------------------------------------------------------------------------------------------------ the draw


@given(scores=st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e6)), min_size=1, max_size=30).filter(any))
def test_an_example_is_drawn_in_proportion_to_its_score(scores):
    """Evenly spaced numbers instead of random ones: every count is right within one."""
    num_points = 1000
    uniforms = (torch.arange(num_points, dtype=torch.float64) + 0.5) / num_points
    indices = draw_by(torch.tensor(scores, dtype=torch.float64), uniforms)
    counts = np.bincount(indices.numpy(), minlength=len(scores))
    assert len(counts) == len(scores)
    expected = np.array(scores) / sum(scores) * num_points
    assert (np.abs(counts - expected) <= 1 + 1e-6).all()
    assert not counts[np.array(scores) == 0].any()


def test_the_largest_random_number_names_no_impossible_example():
    last = torch.tensor([0.0, 1 - 2**-53, 1.0], dtype=torch.float64)
    for scores in ([1.0, 0.0], [0.1, 0.2, 0.7, 0.0], [0.0, 3.0, 0.0], [1e-30, 1e30, 1e-30]):
        values = torch.tensor(scores, dtype=torch.float64)
        indices = draw_by(values, last)
        assert (values[indices] > 0).all()


def test_the_weighted_mean_is_unbiased_over_many_draws():
    generator = torch.Generator().manual_seed(4)
    scores = torch.rand(24, generator=generator) ** 4 + 1e-3
    losses = torch.randn(24, generator=generator, dtype=torch.float64)
    select = switched_on(8)
    means = []
    for _ in range(4000):
        (_, picked), weights = select.weighted(nn.Identity(), (scores, losses))
        means.append((weights * picked).mean().item())
        select.load_state_dict(select.state_dict() | {"tau": 10.0})
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - losses.mean().item()) < 4 * error
    p = (scores / scores.sum()).double()
    variance = ((losses**2 / (24**2 * p)).sum() - losses.mean() ** 2).item() / 8
    assert np.var(means) == pytest.approx(variance, rel=0.15)


def test_off_it_is_a_uniform_part_without_repeats_and_with_weights_one():
    select = go.ImportanceSampling(4, score=by_value, probe_every=None)
    counts, num_draws = np.zeros(12), 1500
    for _ in range(num_draws):
        (_, names), weights = select.weighted(nn.Identity(), (torch.arange(12.0), torch.arange(12)))
        assert weights.tolist() == [1.0] * 4
        assert len(set(names.tolist())) == 4
        counts[names.numpy()] += 1
    expected = num_draws / 3
    assert (np.abs(counts - expected) < 4.5 * math.sqrt(num_draws * 2 / 9)).all()


@pytest.mark.parametrize("size", [1, 3, 4])
def test_a_batch_that_is_small_enough_stays_whole(size):
    (kept,), weights = switched_on(4).weighted(nn.Identity(), (torch.rand(size) + 1,))
    assert len(kept) == size
    assert weights.tolist() == [1.0] * size


def test_scores_that_are_all_zero_draw_everything_alike():
    select = switched_on(4)
    (_, names), weights = select.weighted(nn.Identity(), (torch.zeros(12), torch.arange(12)))
    assert weights.tolist() == [1.0] * 4
    assert len(set(names.tolist())) > 1
    assert select.tau == pytest.approx(0.9 * 10 + 0.1)


def test_the_default_score_is_the_gradient_at_the_logits():
    model = nn.Linear(4, 3)
    batch = (torch.randn(12, 4), torch.arange(12) % 3)
    gradients = nn.functional.one_hot(batch[1], 3) - model(batch[0]).softmax(1)
    scores = gradients.norm(dim=1).detach().double()
    select = go.ImportanceSampling(4)
    select.observe(SKEWED)
    (kept, _), weights = select.weighted(model, batch)
    for row, weight in zip(kept, weights, strict=True):
        (i,) = (batch[0] == row).all(1).nonzero().flatten().tolist()
        assert weight.item() == pytest.approx((scores.mean() / scores[i]).item(), rel=1e-5)


# ------------------------------------------------------------------------------------------------ several processes


def drawn():
    select = go.ImportanceSampling(8, score=by_value)
    select.observe(SKEWED)
    batch = (torch.rand(24, generator=torch.Generator().manual_seed(0)) + 0.1, torch.arange(24))
    (_, names), weights = select.weighted(nn.Identity(), batch)
    try:
        go.ImportanceSampling(5).weighted(nn.Identity(), batch)
    except ValueError as error:
        return names.tolist(), len(weights), str(error), dist.get_rank()
    return None


@pytest.mark.slow
def test_each_process_draws_its_share_with_random_numbers_of_its_own():
    (first, num, error, _), (second, other_num, _, _) = processes.run(drawn, 2)
    assert num == other_num == 4
    assert first != second
    assert "batch_size" in error

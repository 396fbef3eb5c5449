import math
from functools import cache

import pytest
import torch
from asking import order_of

import gradorder as go
from gradorder.orderings.ordering import epoch_generator


def order(scores, temperature=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return go.PlackettLuce(temperature)(torch.as_tensor(scores), epoch=0, generator=generator)


@pytest.mark.parametrize("temperature", [1e-3, 1e-9, 1e-310])
def test_cold_is_descending(temperature):
    scores = torch.arange(1, 101, dtype=torch.float32)[torch.randperm(100)]
    expected = go.Descending()(scores, epoch=0, generator=torch.Generator())
    assert torch.equal(order(scores, temperature), expected)


def test_where_the_noise_rounds_away_equal_scores_stay_as_they_stand():
    """Keys are equal then, and the fast sort alone would mix them."""
    scores = torch.tensor([5.0, 2.0, 3.0]).repeat(400)  # not 1: its logarithm is 0, and no noise rounds away beside it
    expected = go.Descending()(scores, epoch=0, generator=torch.Generator())
    assert torch.equal(order(scores, 1e-300), expected)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1e9, math.inf])
def test_hot_ignores_the_scores(temperature):
    first = torch.stack([order([1.0, 2.0, 4.0, 1000.0], temperature, seed)[0] for seed in range(1600)])
    counts = torch.bincount(first, minlength=4)
    assert (counts - 400).abs().max() < 5 * 17.4


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_draws_without_replacement_with_weights_score_to_the_inverse_temperature(temperature):
    scores = torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.float64)
    num_draws = 3000
    drawn = torch.stack([order(scores, temperature, seed) for seed in range(num_draws)])
    weights = scores ** (1 / temperature)
    first = torch.bincount(drawn[:, 0], minlength=4) / num_draws
    expected_first = weights / weights.sum()
    assert (first - expected_first).abs().max() < 5 * 0.5 / math.sqrt(num_draws)
    # Given that the last example came first, the second is drawn among the others by the same weights.
    second = torch.bincount(drawn[drawn[:, 0] == 3][:, 1], minlength=4).double()
    expected_second = weights[:3] / weights[:3].sum()
    assert (second[:3] / second.sum() - expected_second).abs().max() < 5 * 0.5 / math.sqrt(float(second.sum()))


def test_zeros_come_last_in_random_order():
    scores = [0.0, 5.0, 0.0, 1.0, 0.0]
    tails = set()
    for seed in range(60):
        drawn = order(scores, seed=seed).tolist()
        assert set(drawn[:2]) == {1, 3}
        tails.add(tuple(drawn[2:]))
    assert len(tails) == 6


def test_zeros_come_last_at_any_temperature():
    for temperature in (1e-9, 0.5, 2.0, 1e308, math.inf):
        assert set(order([0.0, 5.0, 0.0, 1.0, 0.0], temperature, seed=1)[:2].tolist()) == {1, 3}


# ------------------------------------------------------------------------------------------------ unbiased

SCORES = torch.tensor([0.5, 3.0, 1.0, 0.2, 2.0, 1.0, 4.0], dtype=torch.float64)
SIMILAR = torch.tensor([1.0, 3.0, 1.5, 0.8, 2.0, 1.0, 2.5], dtype=torch.float64)  # so that weights vary little
ZEROS = torch.tensor([0.5, 0.0, 1.0, 0.0, 2.0, 0.0, 0.0], dtype=torch.float64)
CLASSES = torch.tensor([0, 0, 1, 0, 1, 2, 1])
UNEVEN = torch.tensor([0, 1, 0, 0, 1, 2, 0])


@cache
def complete(ordering, scores, seed):
    """The order of all examples: the same however many of them are kept."""
    return ordering(torch.tensor(scores, dtype=torch.float64), epoch=0, generator=epoch_generator(seed, 0)).tolist()


def kept_with_weights(scores, num_kept, temperature, seed, classes=None):
    """The kept examples of one epoch, the first `num_kept[c]` of each class, and their weights."""
    ordering = go.PlackettLuce(temperature, unbiased=True)
    counts = [len(scores)] if classes is None else torch.bincount(classes).tolist()
    shares = [kept / count for kept, count in zip(num_kept, counts, strict=True)]
    found = order_of(ordering, scores, seed=seed, classes=classes, keep=min(shares))
    of_class = [0] * len(scores) if classes is None else classes.tolist()
    left, kept = list(num_kept), []
    for i in complete(ordering, tuple(scores.tolist()), seed):
        if left[of_class[i]]:
            kept.append(i)
            left[of_class[i]] -= 1
    assert found.indices.tolist() == kept
    return found.indices, found.weights


def weights_slowly(scores, kept, temperature, seed, classes=None):
    """By the formula, one example at a time; positive scores only."""
    uniform = torch.rand(len(scores), dtype=torch.float64, generator=epoch_generator(seed, 0)).tolist()
    exponential = [-math.log(1 - number) for number in uniform]
    keys = [math.log(p) / temperature - math.log(e) for p, e in zip(scores.tolist(), exponential, strict=True)]
    result = []
    for i in kept.tolist():
        rivals = [j for j in range(len(scores)) if classes is None or classes[j] == classes[i]]
        left_out = [keys[j] for j in rivals if j not in kept.tolist()]
        chance = 1.0
        if left_out:
            chance = 1 - math.exp(-math.exp(math.log(scores[i]) / temperature - max(left_out)))
        result.append(len(kept) / len(scores) / chance)
    return result


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize(
    ("num_kept", "classes"), [([3], None), ([7], None), ([2, 2, 1], CLASSES), ([2, 1, 1], UNEVEN)], ids=str
)
def test_weights_are_those_of_the_formula(temperature, num_kept, classes):
    for seed in range(20):
        kept, weights = kept_with_weights(SCORES, num_kept, temperature, seed, classes)
        assert len(kept) == sum(num_kept)
        assert weights.tolist() == pytest.approx(weights_slowly(SCORES, kept, temperature, seed, classes), rel=1e-9)


def mean_contribution(draws, num_examples):
    """What each example adds to N times the weighted mean, averaged over draws, and its standard error."""
    added = torch.zeros(len(draws), num_examples, dtype=torch.float64)
    for row, (kept, weights) in zip(added, draws, strict=True):
        row[kept] = num_examples / len(kept) * weights.double()
    return added.mean(0), added.std(0) / math.sqrt(len(draws))


def assert_all_are(expected, draws, num_examples):
    mean, error = mean_contribution(draws, num_examples)
    assert ((mean - torch.as_tensor(expected)).abs() <= 4 * error + 1e-9).all(), (mean, error)
    assert (error < 0.2).all()  # or the test could not tell


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "num_kept"), [(0.7, 4), (1.0, 2), (3.0, 6), (math.inf, 4)])
def test_every_example_adds_its_share_on_average(temperature, num_kept):
    """One example alone would have weights of infinite variance."""
    draws = [kept_with_weights(SIMILAR, [num_kept], temperature, seed) for seed in range(1000)]
    assert_all_are(1.0, draws, 7)


@pytest.mark.slow
def test_every_example_of_every_class_adds_its_share_on_average():
    draws = [kept_with_weights(SIMILAR, [2, 2, 1], 1.0, seed, CLASSES) for seed in range(1000)]
    assert_all_are(1.0, draws, 7)


@pytest.mark.slow
def test_examples_of_score_zero_add_their_share_once_all_others_are_kept():
    for num_kept, expected in [(2, [1, 0, 1, 0, 1, 0, 0]), (5, 1.0)]:
        draws = [kept_with_weights(ZEROS, [num_kept], 1.0, seed) for seed in range(1000)]
        assert_all_are(expected, draws, 7)
    _, weights = kept_with_weights(torch.zeros(4), [2], 1.0, 0)
    assert weights.tolist() == [1.0, 1.0]


def test_complete_epochs_weigh_one_exactly():
    for temperature in (1e-6, 1.0, math.inf):
        _, weights = kept_with_weights(SCORES, [7], temperature, 0)
        assert weights.tolist() == [1.0] * 7


def test_only_an_unbiased_one_is_weighted():
    for keep in (None, 0.5):
        assert order_of(go.PlackettLuce(), SCORES, keep=keep).weights is None
        assert order_of(go.PlackettLuce(unbiased=True), SCORES, keep=keep).weights is not None
    with pytest.raises(TypeError, match=r"unbiased.*1"):
        go.PlackettLuce(unbiased=1)
    with pytest.raises(ValueError, match=r"temperature.*1e-09"):
        go.PlackettLuce(1e-9, unbiased=True)

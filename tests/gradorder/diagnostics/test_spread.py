import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from gradorder.diagnostics import advice

norm_lists = st.lists(st.floats(0, 1e6), min_size=1, max_size=30)
positive_lists = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30)


def array(values):
    return np.array(values, dtype=np.float64)


def second_moment(norms, probabilities):
    """E of the squared norm of a gradient drawn with these probabilities and weighted by 1 / (N p): term by term."""
    return sum(p * (norm / (len(norms) * p)) ** 2 for norm, p in zip(norms, probabilities, strict=True) if norm > 0)


@pytest.mark.parametrize(
    ("norms", "variation", "half", "effective"),
    [
        ([2, 2, 2, 2], 0.0, 0.5, 1.0),
        ([4, 0, 0, 0], math.sqrt(3), 1.0, 0.25),
        ([1, 3], 0.5, 0.75, 0.8),
        ([1, 2, 6], math.sqrt(14 / 3) / 3, 8 / 9, 81 / (3 * 41)),
        ([0, 0], 0.0, 0.5, 1.0),
        ([7], 0.0, 1.0, 1.0),
    ],
)
def test_hand_computed_cases(norms, variation, half, effective):
    assert advice.variation(array(norms)) == pytest.approx(variation)
    assert advice.harder_half_share(array(norms)) == pytest.approx(half)
    assert advice.effective_share(array(norms)) == pytest.approx(effective)


@given(norms=norm_lists)
def test_the_effective_share_follows_from_the_variation(norms):
    assume(max(norms) == 0 or max(norms) > 1e-100)
    expected = 1 / (1 + advice.variation(array(norms)) ** 2)
    assert advice.effective_share(array(norms)) == pytest.approx(expected, rel=1e-9)


@given(norms=norm_lists, data=st.data())
def test_the_gain_is_a_ratio_of_second_moments(norms, data):
    assume(max(norms) > 1e-3)
    scores = data.draw(st.lists(st.floats(0, 1e3), min_size=len(norms), max_size=len(norms)).filter(any))
    assume(max(scores) > 1e-3)
    raised = [score + sum(scores) / len(scores) / 10 for score in scores]
    uniform = second_moment(norms, [1 / len(norms)] * len(norms))
    drawn = second_moment(norms, [value / sum(raised) for value in raised])
    assert advice.gain(array(norms), array(scores)) == pytest.approx(uniform / drawn, rel=1e-9)


@given(norms=positive_lists, factor=st.sampled_from([1e-200, 1.0, 1e200]))
def test_no_score_gains_more_than_exact_norms_could_and_scale_is_nothing(norms, factor):
    limit = 1 / advice.effective_share(array(norms))
    own = advice.gain(array(norms), array(norms) * factor)
    assert own <= limit * (1 + 1e-12)
    assert own >= 1 - 1e-12
    assert advice.gain(array(norms) * factor, array(norms)) == pytest.approx(own)
    assert advice.gain(array(norms), array(norms)[::-1]) <= limit * (1 + 1e-12)


def test_scores_the_wrong_way_round_are_worse_than_uniform():
    norms = array([1, 1, 1, 10])
    assert advice.gain(norms, norms) > 1.8
    assert advice.gain(norms, array([10, 10, 10, 1])) < 0.5


def test_scores_that_say_nothing():
    norms = array([1, 2, 30])
    assert advice.gain(norms, array([5, 5, 5])) == pytest.approx(1)
    assert advice.gain(norms, array([0, 0, 0])) == 1
    assert advice.gain(array([0, 0, 0]), norms) == 1
    assert advice.gain(norms, array([1, 2, -1])) == 0
    assert advice.gain(norms, array([0, 0, 1])) > 2  # zeros do little harm


@given(
    pairs=st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=40),
)
def test_the_rank_correlation_is_spearmans(pairs):
    first, second = array([a for a, _ in pairs]), array([b for _, b in pairs])
    found = advice.rank_correlation(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gradorder_lab.claims import Claim, Comparison, Outcome, Verdict, weakest
from gradorder_lab.statistics import Effect, interval


def effect(low, high, won=0.5):
    return Effect(mean=(low + high) / 2, low=low, high=high, won=won, num_seeds=100)


def compared(kind, found, *, is_primary=True, data="here"):
    return Comparison(data, "a - b", "a reading", is_primary, kind, found)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_the_interval_is_that_of_the_t_test(values):
    values = np.array(values)
    low, high = interval(values)
    if values.std() > 1e-6:
        expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        assert (low, high) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-9)
    else:
        assert high - low < 1e-3


def test_one_seed_says_nothing():
    found = Effect.of(np.array([1.0]), np.array([2.0]), scale=1.0)
    assert (found.low, found.high) == (-np.inf, np.inf)
    for kind in ("lower", "equal", "different"):
        assert compared(kind, found).outcome == Outcome.OPEN


def test_an_effect_is_paired_and_relative():
    ours, theirs = np.array([1.0, 12.0, 103.0]), np.array([2.0, 13.0, 104.0])
    found = Effect.of(ours, theirs, scale=10.0)
    assert (found.mean, found.low, found.high) == pytest.approx((-0.1, -0.1, -0.1))
    assert (found.won, found.num_seeds) == (1.0, 3)


@pytest.mark.parametrize(
    ("kind", "low", "high", "won", "outcome"),
    [
        ("lower", -0.4, -0.1, 0.9, Outcome.HOLDS),
        ("lower", -1e-9, -1e-10, 0.9, Outcome.HOLDS),  # tiny, and still on the claimed side
        ("lower", 0.1, 0.4, 0.1, Outcome.FAILS),
        ("lower", -0.01, 0.01, 0.5, Outcome.FAILS),  # nothing of the claimed size is left
        ("lower", -0.4, 0.1, 0.7, Outcome.OPEN),
        ("equal", -0.04, 0.04, 0.5, Outcome.HOLDS),
        ("equal", 0.01, 0.04, 0.0, Outcome.HOLDS),  # a difference, within the margin
        ("equal", 0.06, 0.4, 0.1, Outcome.FAILS),
        ("equal", -0.4, -0.06, 0.1, Outcome.FAILS),
        ("equal", -0.4, 0.01, 0.5, Outcome.OPEN),
        ("different", -0.4, -0.1, 0.9, Outcome.HOLDS),
        ("different", 0.1, 0.4, 0.1, Outcome.HOLDS),
        ("different", -0.01, 0.01, 0.5, Outcome.FAILS),
        ("different", -0.4, 0.1, 0.5, Outcome.OPEN),
        ("always", -0.4, -0.1, 1.0, Outcome.HOLDS),
        ("always", -0.4, -0.1, 0.99, Outcome.FAILS),
    ],
)
def test_one_comparison(kind, low, high, won, outcome):
    assert compared(kind, effect(low, high, won)).outcome == outcome


HOLDS, FAILS, OPEN = effect(-0.4, -0.1), effect(0.1, 0.4), effect(-0.4, 0.1)


@pytest.mark.parametrize(
    ("primary", "others", "verdict"),
    [
        ([HOLDS, HOLDS], [HOLDS], Verdict.REPRODUCED),
        ([HOLDS, HOLDS], [FAILS], Verdict.PARTLY),
        ([HOLDS, HOLDS], [HOLDS, OPEN], Verdict.PARTLY),
        ([HOLDS, HOLDS], [None], Verdict.PARTLY),
        ([HOLDS, OPEN], [HOLDS], Verdict.INCONCLUSIVE),
        ([HOLDS, FAILS], [HOLDS], Verdict.NOT_REPRODUCED),
        ([OPEN, FAILS], [HOLDS], Verdict.NOT_REPRODUCED),
        ([HOLDS, None], [HOLDS], Verdict.NOT_TESTED),
        ([], [HOLDS], Verdict.NOT_TESTED),
    ],
)
def test_the_verdict_on_one_data_set(primary, others, verdict):
    comparisons = [compared("lower", one) for one in primary]
    comparisons += [compared("lower", one, is_primary=False) for one in others]
    claim = Claim("C0", "a claim", tuple(comparisons))
    assert claim.verdict == claim.verdict_on("here") == verdict


def test_over_data_sets_the_weakest_counts():
    here, there = compared("lower", HOLDS), compared("lower", FAILS, data="there")
    claim = Claim("C0", "a claim", (here, there))
    assert claim.data == ["here", "there"]
    assert claim.verdict_on("here") == Verdict.REPRODUCED
    assert claim.verdict == Verdict.NOT_REPRODUCED
    assert weakest([]) == Verdict.NOT_TESTED
    assert weakest([Verdict.PARTLY, Verdict.REPRODUCED]) == Verdict.PARTLY
    assert weakest([Verdict.PARTLY, Verdict.INCONCLUSIVE]) == Verdict.INCONCLUSIVE


def test_the_headline_is_the_primary_comparison_furthest_from_the_claim():
    weak, strong = compared("lower", effect(-0.2, 0.3)), compared("lower", effect(-0.9, -0.8))
    other = compared("lower", effect(0.8, 0.9), is_primary=False)
    assert Claim("C0", "", (strong, weak, other)).headline_on("here") is weak
    near, far = compared("equal", effect(-0.01, 0.02)), compared("equal", effect(-0.5, 0.02))
    assert Claim("C0", "", (near, far)).headline_on("here") is far
    assert Claim("C0", "", (compared("lower", None),)).headline_on("here") is None

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gradorder_lab.judge.claims import Agreement, Claim, Comparison, Outcome, Verdict, agreement, first_verdict, weakest
from gradorder_lab.judge.effects import Effect, interval


def effect(low, high, won=0.5):
    return Effect(mean=(low + high) / 2, low=low, high=high, won=won, num_seeds=100)


def compared(kind, found, *, is_primary=True, data="here", **settings):
    return Comparison(data, "a - b", f"reading {is_primary}", 0 if is_primary else 1, kind, found, **settings)


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
        ("lower", -1e-9, -1e-10, 0.9, Outcome.FAILS),  # on the claimed side, and too small to matter
        ("lower", -0.0015, -0.0001, 0.9, Outcome.OPEN),  # on the claimed side, and perhaps large enough
        ("lower", 1e-10, 1e-9, 0.1, Outcome.FAILS),
        ("lower", 0.1, 0.4, 0.1, Outcome.FAILS),
        ("lower", -0.0009, 0.0009, 0.5, Outcome.FAILS),  # nothing that matters is left
        ("lower", -0.01, 0.01, 0.5, Outcome.OPEN),
        ("lower", -0.4, 0.1, 0.7, Outcome.OPEN),
        ("equal", -0.009, 0.009, 0.5, Outcome.HOLDS),
        ("equal", 0.002, 0.009, 0.0, Outcome.HOLDS),  # a difference, within the margin
        ("equal", 0.06, 0.4, 0.1, Outcome.FAILS),
        ("equal", -0.4, -0.06, 0.1, Outcome.FAILS),
        ("equal", -0.4, 0.01, 0.5, Outcome.OPEN),
        ("different", -0.4, -0.1, 0.9, Outcome.HOLDS),
        ("different", 0.1, 0.4, 0.1, Outcome.HOLDS),
        ("different", -0.0009, 0.0009, 0.5, Outcome.FAILS),
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
        ([], [HOLDS], Verdict.REPRODUCED),  # the first reading that counts is the primary one
        ([], [], Verdict.NOT_TESTED),
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


def test_a_verdict_stands_beside_the_comparison_that_decides_it():
    """One that is open may lie further from the claim than the one that fails."""
    fails, holds = compared("lower", effect(0.1, 0.2)), compared("lower", effect(-0.9, -0.8))
    further = compared("lower", effect(-5.0, 9.0))
    claim = Claim("C0", "", (further, fails, holds))
    assert claim.verdict_on("here") == Verdict.NOT_REPRODUCED
    assert claim.headline_on("here") is fails
    assert Claim("C0", "", (further, holds)).headline_on("here") is further


def test_what_is_only_partly_reproduced_names_its_exception():
    holds = compared("lower", effect(-0.9, -0.8))
    near, far = (compared("lower", effect(low, low + 0.1), is_primary=False) for low in (0.1, 0.5))
    claim = Claim("C0", "", (holds, near, far))
    assert (claim.headline_on("here"), claim.exception_on("here")) == (holds, far)
    assert Claim("C0", "", (holds,)).exception_on("here") is None
    assert Claim("C0", "", (near,)).exception_on("here") is None  # it is not reproduced at all


def test_the_units_have_margins_of_their_own():
    for unit, inside, outside in (("fall", 0.009, 0.02), ("excess", 0.04, 0.06), ("points", 0.4, 0.6)):
        for size, expected in ((inside, Outcome.HOLDS), (outside, Outcome.FAILS)):
            found = Effect(size, 0.99 * size, 1.01 * size, 0.0, 100, unit=unit)
            assert compared("equal", found).outcome == expected


def test_what_does_not_test_the_claim_does_not_count():
    far_off = compared("lower", FAILS, untested="it hardly moved")
    stands_in, other = compared("lower", HOLDS, is_primary=False), compared("lower", FAILS, data="there", untested="no")
    claim = Claim("C0", "a claim", (far_off, stands_in, other))
    assert far_off.outcome is None
    assert claim.primary_on("here") == [stands_in]
    assert claim.untested_on("here") == "it hardly moved"
    assert claim.verdict_on("here") == claim.verdict == Verdict.REPRODUCED
    assert claim.verdict_on("there") == Verdict.NOT_TESTED
    assert claim.readings == (1, 1)
    assert Claim("C0", "a claim", (far_off,)).verdict == Verdict.NOT_TESTED


def with_p(p, num_seeds=10):
    """A comparison that an interval decides for the claim if it leaves out at least p."""
    error = 0.1 / float(stats.t.isf(p / 2, num_seeds - 1))
    half = float(stats.t.ppf(0.975, num_seeds - 1)) * error
    return compared("lower", Effect(-0.1, -0.1 - half, -0.1 + half, 1.0, num_seeds))


def test_what_an_interval_leaves_out_is_the_p_value_of_the_t_test():
    values = np.random.default_rng(0).normal(-1, 1, 12)
    found = compared("lower", Effect.of(values, np.zeros(12)))
    assert found.decision == (Outcome.HOLDS, pytest.approx(stats.ttest_1samp(values, 0).pvalue))


@pytest.mark.parametrize(
    ("ps", "decided"),
    [
        ((0.04,), 1),
        ((0.04, 0.04), 0),  # the first needs 0.025
        ((0.024, 0.04), 2),  # then the second 0.05
        ((0.016, 0.024, 0.04), 3),
        ((0.001, 0.03, 0.04), 1),  # the second needs 0.025, and none after it is asked
    ],
)
def test_primary_comparisons_are_corrected_together(ps, decided):
    comparisons = tuple(replace(with_p(p), what=str(number)) for number, p in enumerate(ps))
    claim = Claim("C0", "a claim", comparisons)
    assert [claim.outcome_of(one) for one in comparisons].count(Outcome.HOLDS) == decided
    assert all(one.outcome == Outcome.HOLDS for one in comparisons)  # each by itself
    other = replace(with_p(0.04), rank=1)
    assert Claim("C0", "", (*comparisons, other)).outcome_of(other) == Outcome.HOLDS  # readings are not corrected


def test_a_reading_holds_where_all_its_comparisons_do():
    first = [replace(compared("lower", one), what=str(number)) for number, one in enumerate((HOLDS, FAILS))]
    second = compared("lower", HOLDS, is_primary=False)
    missing = replace(compared("lower", None, is_primary=False), reading="not run")
    assert Claim("C0", "", (*first, second, missing)).readings == (1, 2)


@pytest.mark.parametrize(
    ("here", "before", "found"),
    [
        (Verdict.PARTLY, Verdict.PARTLY, Agreement.AGREES),
        (Verdict.NOT_TESTED, Verdict.NOT_TESTED, Agreement.OPEN),
        (Verdict.INCONCLUSIVE, Verdict.REPRODUCED, Agreement.OPEN),
        (Verdict.REPRODUCED, Verdict.NOT_TESTED, Agreement.OPEN),
        (Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Agreement.DIFFERS),
    ],
)
def test_what_was_run_here_and_before(here, before, found):
    assert agreement(here, before) == found


@pytest.mark.parametrize(
    ("kind", "low", "high", "factor", "verdict"),
    [
        ("lower", -1e-9, -1e-10, 1.0, Verdict.REPRODUCED),  # an effect of any size decided
        ("lower", -0.04, 0.04, 1.0, Verdict.NOT_REPRODUCED),
        ("equal", 0.001, 0.003, 10.0, Verdict.REPRODUCED),
        ("equal", 0.001, 0.003, 100.0, Verdict.NOT_REPRODUCED),  # a noise floor, as a share of F - F*
    ],
)
def test_the_first_version_of_the_rule(kind, low, high, factor, verdict):
    found = replace(effect(low, high), excess_factor=factor)
    counted = compared(kind, found, first="primary", untested="it hardly moved")
    new = compared(kind, FAILS, is_primary=False, first="none")
    assert first_verdict(Claim("C0", "", (counted, new))) == verdict


def test_a_claim_has_the_seeds_of_what_decides_it_not_the_most_that_any_comparison_has():
    few, many = Effect(0.3, 0.2, 0.4, 0.0, 4), Effect(-0.3, -0.4, -0.2, 1.0, 100)
    holds, fails = (Comparison(data, "a - b", "", 0, "lower", one) for data, one in (("first", many), ("second", few)))
    assert Claim("C1", "", (holds, fails)).num_seeds == 4  # not reproduced, by the second data set
    assert Claim("C1", "", (holds,)).num_seeds == 100
    assert Claim("C1", "", ()).num_seeds == 0

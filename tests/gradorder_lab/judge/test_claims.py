"""The rule on rows that were made so that the verdict is known: all hold, some, none, open, cannot say."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gradorder_lab.judge.claims import Agreement, Cell, Claim, Count, Outcome, Verdict, agreement, counted
from gradorder_lab.judge.effects import Effect, interval


def effect(low, high, won=0.5, **settings):
    return Effect(mean=(low + high) / 2, low=low, high=high, won=won, num_seeds=100, **settings)


def cell(kind, found, *, part=("here",), reading=("a reading",), **settings):
    return Cell(part, "a - b", reading, kind, found, **settings)


def claim_of(*cells):
    """Cells that differ in their part, whatever they were given."""
    return Claim("C0", "a claim", tuple(replace(one, part=(str(place),)) for place, one in enumerate(cells)))


# ---- effects ----


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
        assert cell(kind, found).outcome() == Outcome.OPEN


def test_an_effect_is_paired_and_relative():
    ours, theirs = np.array([1.0, 12.0, 103.0]), np.array([2.0, 13.0, 104.0])
    found = Effect.of(ours, theirs, scale=10.0)
    assert (found.mean, found.low, found.high) == pytest.approx((-0.1, -0.1, -0.1))
    assert (found.won, found.num_seeds) == (1.0, 3)


# ---- one cell ----


@pytest.mark.parametrize(
    ("kind", "low", "high", "won", "outcome"),
    [
        ("lower", -0.4, -0.1, 0.9, Outcome.HOLDS),
        ("lower", -1e-9, -1e-10, 0.9, Outcome.FAILS),  # on the claimed side, and too small to matter
        ("lower", -0.0015, -0.0001, 0.9, Outcome.OPEN),  # on the claimed side, and perhaps large enough
        ("lower", -0.0019, -0.0003, 0.9, Outcome.HOLDS),  # the effect matters, though one end of the interval does not
        ("lower", 1e-10, 1e-9, 0.1, Outcome.FAILS),
        ("lower", 0.0001, 0.0017, 0.1, Outcome.FAILS),  # on the other side, at any size
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
def test_one_cell(kind, low, high, won, outcome):
    assert cell(kind, effect(low, high, won)).outcome() == outcome


@pytest.mark.parametrize(("unit", "margin"), [("fall", 0.01), ("excess", 0.05), ("points", 0.5)])
def test_the_margin_decides_about_the_same(unit, margin):
    inside, outside = (effect(0.99 * size, size, unit=unit) for size in (0.9 * margin, 1.1 * margin))
    assert claim_of(cell("equal", inside)).verdict == Verdict.REPRODUCED
    assert claim_of(cell("equal", outside)).verdict == Verdict.NOT_REPRODUCED
    across = effect(0.9 * margin, 1.1 * margin, unit=unit)
    assert claim_of(cell("equal", across)).verdict == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("unit", "smallest"), [("fall", 0.001), ("excess", 0.05), ("points", 0.1)])
def test_an_effect_has_to_matter(unit, smallest):
    large, small = (effect(-1.001 * size, -0.999 * size, unit=unit) for size in (1.1 * smallest, 0.9 * smallest))
    for kind in ("lower", "different"):
        assert [cell(kind, found).outcome() for found in (large, small)] == [Outcome.HOLDS, Outcome.FAILS]


# ---- the verdict, from rows that were made for it ----

SEEDS = 20
NOISE = np.random.default_rng(0).normal(0, 0.01, SEEDS)
NOISE -= NOISE.mean()


def rows(difference, noise=1.0):
    """The effect of rows that differ by this on average: the claim is that they lie below."""
    theirs = np.linspace(1, 2, SEEDS)
    return Effect.of(theirs + difference + noise * NOISE, theirs)


LOWER, HIGHER, UNCLEAR = rows(-0.2), rows(0.2), rows(-0.001)


@pytest.mark.parametrize(
    ("effects", "count", "verdict"),
    [
        ([LOWER] * 3, Count(3, 0, 0, 0, 0), Verdict.REPRODUCED),
        ([LOWER, LOWER, HIGHER], Count(2, 1, 0, 0, 0), Verdict.PARTLY),
        ([LOWER, UNCLEAR], Count(1, 0, 1, 0, 0), Verdict.PARTLY),
        ([HIGHER] * 2, Count(0, 2, 0, 0, 0), Verdict.NOT_REPRODUCED),
        ([HIGHER, UNCLEAR], Count(0, 1, 1, 0, 0), Verdict.NOT_REPRODUCED),
        ([UNCLEAR] * 2, Count(0, 0, 2, 0, 0), Verdict.INCONCLUSIVE),
        ([None], Count(0, 0, 0, 0, 1), Verdict.NOT_TESTED),
        ([LOWER, None], Count(1, 0, 0, 0, 1), Verdict.REPRODUCED),  # of what was run; the count says what is missing
        ([], Count(0, 0, 0, 0, 0), Verdict.NOT_TESTED),
    ],
)
def test_the_verdict_counts_the_cells(effects, count, verdict):
    claim = claim_of(*(cell("lower", one) for one in effects))
    assert claim.count == count
    assert claim.verdict == verdict


def test_runs_that_do_not_test_the_claim_cannot_say_anything():
    hardly_moved = cell("lower", HIGHER, untested="it hardly moved")
    assert hardly_moved.outcome() == Outcome.CANNOT_SAY
    claim = claim_of(cell("lower", LOWER), hardly_moved)
    assert claim.count == Count(1, 0, 0, 1, 0)
    assert claim.verdict == Verdict.REPRODUCED
    assert claim_of(hardly_moved).verdict == Verdict.NOT_TESTED
    assert claim_of(cell("lower", None, untested="it hardly moved")).count.missing == 0


def test_no_cell_weighs_more_than_another():
    """One cell that fails cannot turn nine that hold into "not reproduced", wherever it stands."""
    for place in range(10):
        cells = [cell("lower", LOWER)] * 10
        cells[place] = cell("lower", HIGHER)
        assert claim_of(*cells).verdict == Verdict.PARTLY


def with_p(p, num_seeds=10):
    """A cell that an interval decides for the claim if it leaves out at least p."""
    error = 0.1 / float(stats.t.isf(p / 2, num_seeds - 1))
    half = float(stats.t.ppf(0.975, num_seeds - 1)) * error
    return cell("lower", Effect(-0.1, -0.1 - half, -0.1 + half, 1.0, num_seeds))


def test_what_an_interval_leaves_out_is_the_p_value_of_the_t_test():
    values = np.random.default_rng(0).normal(-1, 1, 12)
    found = Effect.of(values, np.zeros(12))
    expected = stats.ttest_1samp(values, 0).pvalue
    assert cell("lower", found).decision(found) == (Outcome.HOLDS, pytest.approx(expected))


@pytest.mark.parametrize(
    ("ps", "decided", "verdict"),
    [
        ((0.04,), 1, Verdict.REPRODUCED),
        ((0.04, 0.04), 0, Verdict.INCONCLUSIVE),  # the first needs 0.025
        ((0.024, 0.04), 2, Verdict.REPRODUCED),  # then the second 0.05
        ((0.016, 0.024, 0.04), 3, Verdict.REPRODUCED),
        ((0.001, 0.03, 0.04), 1, Verdict.PARTLY),  # the second needs 0.025, and none after it is asked
    ],
)
def test_all_cells_of_a_claim_are_corrected_together(ps, decided, verdict):
    claim = claim_of(*map(with_p, ps))
    assert all(one.outcome() == Outcome.HOLDS for one in claim.cells)  # each by itself
    assert claim.count.holds == decided
    assert claim.verdict == verdict


def test_cells_that_cannot_say_anything_cost_the_others_nothing():
    others = [replace(with_p(0.04), untested="no") for _ in range(5)]
    bounds = [cell("always", effect(-0.4, -0.1, 1.0)) for _ in range(5)]
    assert claim_of(with_p(0.04), *others, *bounds).count == Count(6, 0, 0, 5, 0)


# ---- beside other runs ----


def test_two_sets_of_runs_are_compared_on_the_cells_that_both_have():
    here = claim_of(cell("lower", LOWER), cell("lower", None))
    elsewhere = claim_of(cell("lower", LOWER), cell("lower", HIGHER), cell("lower", HIGHER))
    same = elsewhere.only(one for one in here.cells if not one.is_missing)
    assert (elsewhere.verdict, same.verdict) == (Verdict.PARTLY, Verdict.REPRODUCED)
    assert agreement(here, same) == Agreement(1, 1)


def test_agreement_counts_cells_that_hold_or_fail_in_both():
    here = claim_of(*(cell("lower", one) for one in (LOWER, HIGHER, UNCLEAR, LOWER)))
    elsewhere = claim_of(*(cell("lower", one) for one in (LOWER, LOWER, LOWER, UNCLEAR)))
    assert agreement(here, elsewhere) == Agreement(alike=1, decided=2)


def test_a_claim_has_the_seeds_of_its_judged_cells():
    few, many = (Effect(-0.3, -0.4, -0.2, 1.0, number) for number in (4, 100))
    assert claim_of(cell("lower", few), cell("lower", many)).seeds == (4, 100)
    assert claim_of(cell("lower", few, untested="no"), cell("lower", many)).seeds == (100, 100)
    assert claim_of().seeds == (0, 0)


def test_verdicts_are_counted_strongest_first():
    found = counted([Verdict.PARTLY, Verdict.NOT_REPRODUCED, Verdict.REPRODUCED, Verdict.PARTLY])
    assert list(found.items()) == [(Verdict.REPRODUCED, 1), (Verdict.PARTLY, 2), (Verdict.NOT_REPRODUCED, 1)]

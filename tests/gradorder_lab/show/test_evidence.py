import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradorder_lab.judge.claims import Comparison
from gradorder_lab.judge.effects import Effect
from gradorder_lab.show.evidence import EFFECT_TICKS, ForestLine, effect_place, interval_text, percent, remark

shares = st.floats(-1e6, 1e6)


@given(shares, shares)
def test_places_keep_the_order_and_the_axis(one, other):
    low, high = sorted((one, other))
    assert 0 <= effect_place(low) <= effect_place(high) <= 100
    assert math.isclose(effect_place(-one), 100 - effect_place(one), abs_tol=0.011)


def line(kind):
    effect = Effect(-0.2, -0.3, -0.1, 1.0, 10)
    return ForestLine.of(Comparison("data", "a - b", "reading", 0, kind, effect), effect)


def test_marks_and_the_claimed_part():
    lower = line("lower")
    assert lower.low < lower.mean < lower.high < 50
    assert lower.claimed == (0, 50)
    assert line("different").claimed is None
    assert line("equal").claimed == (effect_place(-1), effect_place(1))


def test_an_interval_without_bounds_reaches_the_edges():
    effect = Effect(0.1, -math.inf, math.inf, 1.0, 1)
    drawn = ForestLine.of(Comparison("data", "a - b", "reading", 0, "lower", effect), effect)
    assert (drawn.low, drawn.high) == (0, 100)


def test_ticks():
    assert list(EFFECT_TICKS) == ["−20×", "−1×", "+1×", "+20×"]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.05, "+5%"),
        (-0.3333, "−33.3%"),
        (9.994, "+999%"),
        (10.5, "+1,050%"),
        (1e-5, "+0.001%"),
        (2.5e-8, "+2.50 ×\xa010⁻⁶%"),
        (-2.15e-13, "−2.15 ×\xa010⁻¹¹%"),
        (math.nan, "–"),
        (math.inf, "+∞"),
        (-math.inf, "−∞"),
    ],
)
def test_percent(share, text):
    assert percent(share) == text


def effect_of(mean, low, high):
    return Effect(mean, low, high, won=1.0, num_seeds=10)


def test_tiny_effects_are_marked():
    assert remark(effect_of(-1e-9, -2e-9, -1e-10)) == "negligible, though significant"
    assert remark(effect_of(1e-9, 1e-10, 2e-9)) == "negligible, though significant"
    assert remark(effect_of(1e-9, -1e-9, 3e-9)) == "negligible"
    assert remark(effect_of(0, 0, 0)) == "identical"
    assert not remark(effect_of(1e-5, 1e-6, 2e-5))
    assert not remark(effect_of(-0.1, -0.2, 0.1))


def test_interval_without_bounds():
    assert interval_text(effect_of(0, -math.inf, math.inf)) == "−∞ to +∞"

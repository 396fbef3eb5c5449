import math

from hypothesis import given
from hypothesis import strategies as st

from gradorder_lab.judge.claims import Comparison
from gradorder_lab.judge.effects import Effect
from gradorder_lab.show.forest import EFFECT_TICKS, ForestLine, effect_place

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
    assert [tick.text for tick in EFFECT_TICKS] == ["−20×", "−1×", "+1×", "+20×"]

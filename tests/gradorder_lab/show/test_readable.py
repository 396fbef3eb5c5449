import math

import pytest

from gradorder_lab.judge.effects import Effect
from gradorder_lab.show.readable import interval_text, percent, remark


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


def effect(mean, low, high):
    return Effect(mean, low, high, won=1.0, num_seeds=10)


def test_tiny_effects_are_marked():
    assert remark(effect(-1e-9, -2e-9, -1e-10)) == "negligible, though significant"
    assert remark(effect(1e-9, 1e-10, 2e-9)) == "negligible, though significant"
    assert remark(effect(1e-9, -1e-9, 3e-9)) == "negligible"
    assert remark(effect(0, 0, 0)) == "identical"
    assert not remark(effect(1e-5, 1e-6, 2e-5))
    assert not remark(effect(-0.1, -0.2, 0.1))


def test_interval_without_bounds():
    assert interval_text(effect(0, -math.inf, math.inf)) == "−∞ to +∞"

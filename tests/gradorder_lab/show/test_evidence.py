import math

import pytest

from gradorder_lab.judge.claims import Cell, Claim
from gradorder_lab.judge.effects import Effect
from gradorder_lab.show.evidence import ClaimTable, Evidence, interval_text, percent, remark


def test_a_claim_is_a_table_of_parts_and_readings():
    found = Effect(-0.2, -0.3, -0.1, 1.0, 10)
    cells = [
        Cell((part,), "a - b", (reading,), "lower", found) for part, reading in (("x", "1"), ("x", "2"), ("y", "2"))
    ]
    claim = Claim("C0", "", tuple(cells))
    table = ClaimTable.of([Evidence.of(claim, cell) for cell in cells])
    assert table.readings == ("1", "2")
    assert list(table.rows) == ["x: a − b", "y: a − b"]
    assert [one is None for one in table.rows["y: a − b"]] == [True, False]
    shown = table.rows["x: a − b"][0]
    assert (shown.outcome, shown.effect, shown.interval, shown.of_what) == (
        "holds",
        "−20%",
        "−30% to −10%",
        "of random's fall of F",
    )


def test_what_cannot_be_said_and_what_is_missing_are_told_apart():
    untested, missing = (Cell((), "a - b", (), "lower", None, untested=why) for why in ("it hardly moved", ""))
    claim = Claim("C0", "", (untested, missing))
    assert [Evidence.of(claim, cell).outcome for cell in claim.cells] == ["cannot say", "missing"]


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

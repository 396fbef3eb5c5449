from math import inf

import pytest

from gradorder_lab.benchmark.curves import UNKNOWN_SAVING, Saving
from gradorder_lab.show.benchmark import Dot, DotPlot, cost_place

DOTS = [
    Dot("one", "rare", Saving(inf, 0.9, inf)),
    Dot("one", "ours", Saving(0.5, 0.4, 0.6)),
    Dot("two", "ours", Saving(2.0, 1.5, 2.5)),
    Dot("three", "ours", Saving(1.0, 0.9, inf)),
]


def test_rows_are_methods_and_columns_tasks():
    plot = DotPlot.of(DOTS)
    assert plot.tasks == ("one", "two", "three")
    assert list(plot.rows.items()) == [("ours", tuple(DOTS[1:])), ("rare", (DOTS[0], None, None))]


def test_the_tone_says_where_the_interval_lies():
    assert [dot.tone for dot in DOTS] == ["never", "cheaper", "dearer", "level"]
    assert Dot("", "", Saving(0.9, 0.8, 1.0)).tone == "level"
    assert Dot("", "", UNKNOWN_SAVING).tone == "never"


def test_a_dot_says_what_the_tables_say():
    assert [dot.words for dot in (DOTS[0], DOTS[1], DOTS[3])] == [
        "not reached (0.90 to not reached)",
        "0.50 (0.40 to 0.60)",
        "1.00 (0.90 to not reached)",
    ]
    assert Dot("", "", UNKNOWN_SAVING).words == "unknown"


def test_a_method_in_a_sentence():
    plot = DotPlot.of(DOTS)
    assert plot.summary_of("ours") == (
        "“ours” got there on 3 of 3 tasks, for 0.50 to 2.00 of the cost (median 1.00): cheaper beyond noise on 1, "
        "dearer on 1."
    )
    assert plot.summary_of("rare") == "“rare” did not get there on any of 1 tasks."


@pytest.mark.parametrize(("cost", "expected"), [(1, 50), (0.5, 25), (2, 75), (0.01, 0), (9, 100)])
def test_half_and_twice_the_cost_are_equally_far_from_the_line(cost, expected):
    assert cost_place(cost) == expected

"""The referee's tables, on trials written by hand."""

import re
from math import nan

import numpy as np

from gradorder_lab.benchmark.referee import Trial
from gradorder_lab.benchmark.standings import Mean
from gradorder_lab.benchmark.suites import CONFIRMATION, FINE_TUNING
from gradorder_lab.methods import METHODS, RECOMMENDED
from gradorder_lab.show.referee import (
    findings,
    groups_table,
    losses_table,
    methods_table,
    points,
    promise,
    timing_table,
    trials_table,
)

TABLE, TUNED = CONFIRMATION[0], FINE_TUNING[0]
CERTAIN = np.array([0.0, 0.01, -0.01])
TRIALS = [
    Trial(TABLE, RECOMMENDED, 0.1, 0.7, 0.7, 0.8, 0.9, 0.002, CERTAIN, CERTAIN + 2, CERTAIN + 7),
    Trial(TUNED, RECOMMENDED, 0.1, 0.9, 0.9, nan, nan, 0.1, CERTAIN - 5, np.array([-3.0, 0.0, 3.0]), CERTAIN - 1),
    Trial(TABLE, "InfoBatch", 0.2, 0.5, 0.6, 0.6, 0.6, 0.002, CERTAIN - 5, CERTAIN - 2, CERTAIN),
]


def test_every_method_is_counted_on_its_own_tasks():
    _, rows = methods_table(TRIALS)
    assert rows == [
        (RECOMMENDED, "–", "2", "0.70 to 0.90", "not worse on 1, worse on 1", "better on 1, not known on 1"),
        ("InfoBatch", METHODS["InfoBatch"].claim, "1", "0.60", "worse on 1", "worse on 1"),
    ]


def test_the_findings_count_the_answers_that_are_known():
    worse, better, shorter = findings(TRIALS).splitlines()
    assert f"{RECOMMENDED} on 1" in worse
    assert "InfoBatch on 1" in worse
    assert f"{RECOMMENDED} on 1 task; no other method" in better
    assert "InfoBatch on 1 task; no other method" in shorter


def test_a_reservation_stands_beside_the_name():
    ((name, *_),) = methods_table([Trial(TABLE, "RePB", 0.1, 0.6, 0.6, 0.6, 0.6, 0.002, CERTAIN, CERTAIN, CERTAIN)])[1]
    assert name.startswith("RePB (")
    assert METHODS["RePB"].remark in name


def test_the_default_is_counted_by_groups_of_tasks():
    _, rows = groups_table(TRIALS)
    assert [(row[1], row[3]) for row in rows] == [("1", "not worse on 1"), ("1", "worse on 1")]


def test_a_time_that_cannot_be_compared_is_not_shown():
    head, rows = trials_table(TRIALS)
    assert [row[head.index("time")] for row in rows] == ["0.80", "–", "0.60"]
    assert all(len(row) == len(head) for row in rows)


def test_the_time_of_the_default_is_set_against_its_gradients():
    shorter = Trial(CONFIRMATION[1], RECOMMENDED, 0.1, 0.8, 0.8, 0.6, 0.5, 0.001, CERTAIN, CERTAIN, CERTAIN)
    _, rows = timing_table([*TRIALS, shorter])
    assert rows == [
        (CONFIRMATION[1].name, "1", "0.80", "0.60", "0.50", "−25%"),
        (TABLE.name, "2", "0.70", "0.80", "0.90", "+14%"),
    ]


def test_the_test_loss_of_the_default_from_the_largest_rise():
    _, rows = losses_table(TRIALS)
    assert [(row[0], row[1].split()[0]) for row in rows] == [(TABLE.name, "+7.00"), (TUNED.name, "−1.00")]


def test_a_run_that_diverged_has_no_interval():
    assert points(Mean(np.inf, nan, nan)) == "diverged"


def test_the_promise_counts_only_what_was_run():
    told = promise(TRIALS)
    assert f"2 of {len(CONFIRMATION)}" in told
    assert re.findall(r"(\d+)%", told) == ["10", "30", "20"]

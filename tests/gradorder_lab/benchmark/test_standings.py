"""From rows to the table, on rows written by hand."""

from dataclasses import replace

import numpy as np
import pytest
from benchmark_rows import row, rows_of

from gradorder_lab.benchmark.curves import Saving
from gradorder_lab.benchmark.methods import BASELINE, RECOMMENDED
from gradorder_lab.benchmark.standings import COSTS, GRADIENTS, Standings, all_standings, by_saving
from gradorder_lab.benchmark.task import Task
from gradorder_lab.errors import LabError
from gradorder_lab.show.standings import cells, cheapest, difference_text, heading

BUDGETS = (0.25, 0.5, 1.0)
PLAIN = {0.25: 88.0, 0.5: 89.0, 1.0: 90.0}


def standings(*rows, margin=0.5):
    return Standings.of("rings", margin, [one for some in rows for one in some])


def test_a_method_that_is_there_with_half_the_cost_at_every_budget():
    found = standings(rows_of(BASELINE, PLAIN), rows_of(RECOMMENDED, PLAIN, cost=0.5))
    assert found.full == pytest.approx(90.0)
    assert found.target == pytest.approx(89.5)
    ours = found.row(RECOMMENDED)
    for cost in COSTS:
        assert ours.savings[cost].share == pytest.approx(0.5)
        assert ours.spent[cost] == pytest.approx(0.5)
    assert ours.difference.mean == pytest.approx(0.0)
    assert ours.at_half.mean == pytest.approx(1.0)  # its longest run costs half: 90 against 89
    assert ours.curve == ((0.125, 88.0), (0.25, 89.0), (0.5, 90.0))
    assert found.row(BASELINE).savings[GRADIENTS] == Saving(1.0, 1.0, 1.0)
    assert [one.method for one in by_saving(found.rows)] == [RECOMMENDED, BASELINE]
    assert heading(found) == "rings: target 89.50% (90.00 less 0.5), 3 seeds"
    assert cheapest(found).startswith("recommended reached it in 0.50 of the time that random reshuffling takes (95% ")


def test_what_never_gets_there_is_last_and_says_so():
    found = standings(rows_of(BASELINE, PLAIN), rows_of("worse", {0.25: 80.0, 1.0: 85.0}))
    assert [one.method for one in by_saving(found.rows)] == [BASELINE, "worse"]
    told = cells(found.row("worse"))
    assert told[2:4] == ["not reached", "not reached"]
    assert told[5:7] == ["85.00", "−5.00 (−5.00 to −5.00)"]
    assert cheapest(found) == "No method reached the target for less than random reshuffling."


def test_at_half_lies_on_the_line_in_log_cost_and_is_not_made_up():
    between = {0.3: 88.0, 0.8: 89.2, 1.0: 90.0}
    found = standings(rows_of(BASELINE, PLAIN), rows_of("other", between), rows_of("dear", {0.6: 89.9, 1.0: 90.0}))
    part = np.log(0.5 / 0.3) / np.log(0.8 / 0.3)
    assert found.row("other").at_half.mean == pytest.approx(88.0 + part * 1.2 - 89.0)
    assert difference_text(found.row("dear").at_half) == "–"


def test_only_runs_with_the_step_size_of_the_search_count():
    searched = [
        row("m", 0.7, seed, 85.0 + size, step_size=size, validates=True) for size in (0.1, 0.2) for seed in (0, 1)
    ]
    wrong = rows_of("m", PLAIN, step_size=0.1)
    right = rows_of("m", {budget: accuracy + 1 for budget, accuracy in PLAIN.items()}, step_size=0.2)
    found = standings(rows_of(BASELINE, PLAIN), searched, wrong, right).row("m")
    assert found.accuracy == pytest.approx(91.0)
    assert found.step_size == 0.2
    assert found.is_at_edge
    assert standings(rows_of(BASELINE, PLAIN), searched, wrong).row("m") is None


def test_seeds_are_those_that_both_have_at_every_budget():
    some = [one for one in rows_of("m", PLAIN, seeds=4) if (one.budget, one.seed) != (0.5, 0)]
    found = standings(rows_of(BASELINE, PLAIN, seeds=3), some).row("m")
    assert found.num_seeds == 2
    unfinished = [one for one in some if one.budget < 1]
    assert standings(rows_of(BASELINE, PLAIN), unfinished).row("m") is None


def test_without_random_reshuffling_there_is_no_target():
    with pytest.raises(LabError, match="rings: random reshuffling has not been run at the full budget"):
        standings(rows_of("m", PLAIN))


def test_tasks_stand_in_their_order_and_unfinished_ones_are_left_out():
    tasks = [Task(name, "terrain", "2-layer", 1, margin=0.3) for name in ("b", "a", "c")]
    rows = [replace(one, task=name) for name in ("a", "b") for one in rows_of(BASELINE, PLAIN)]
    rows += [replace(one, task="c") for one in rows_of("m", PLAIN)]
    assert [(one.task, one.margin) for one in all_standings(rows, tasks)] == [("b", 0.3), ("a", 0.3)]

"""From rows to the table, on rows written by hand."""

import io
from dataclasses import replace

import numpy as np
import pytest
from benchmark_rows import row, rows_of
from rich.console import Console

from gradorder_lab.benchmark.curves import Saving
from gradorder_lab.benchmark.standings import COSTS, GRADIENTS, Level, Mean, Standings, by_saving
from gradorder_lab.errors import LabError
from gradorder_lab.methods import BASELINE, RECOMMENDED
from gradorder_lab.show.standings import answers, cells, difference_text, heading, show_standings, warnings

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
    assert [(point.budget, point.share, point.seconds) for point in ours.curve] == [
        (0.25, 0.125, 0.125),
        (0.5, 0.25, 0.25),
        (1.0, 0.5, 0.5),
    ]
    assert [point.accuracy.mean for point in ours.curve] == pytest.approx([88.0, 89.0, 90.0])
    assert ours.curve[0].accuracy.high - 88.0 == pytest.approx(4.3027 * 0.1 / np.sqrt(3), rel=1e-4)
    assert found.row(BASELINE).savings[GRADIENTS] == Saving(1.0, 1.0, 1.0)
    assert [one.method for one in by_saving(found.rows)] == [RECOMMENDED, BASELINE]
    assert heading(found) == "rings: target 89.50% (90.00 less 0.5), 3 seeds"


@pytest.mark.parametrize("other", [{"commit": "b"}, {"machine": "another"}])
def test_times_are_unknown_where_one_run_was_made_by_other_code_or_elsewhere(other):
    ours = rows_of(RECOMMENDED, PLAIN, cost=0.5)
    together = standings(rows_of(BASELINE, PLAIN), ours).row(RECOMMENDED)
    apart = standings(rows_of(BASELINE, PLAIN), [*ours[:-1], replace(ours[-1], **other)])  # at the full budget
    found = apart.row(RECOMMENDED)
    assert [cells(found)[place] for place in (2, 3)] == ["unknown", cells(together)[3]]
    assert np.isnan(found.savings["wall_seconds"].share)
    assert [cost for cost in COSTS if np.isnan(found.spent[cost])] == ["processor_seconds", "wall_seconds"]
    assert found.savings["forward_passes"] == together.savings["forward_passes"]
    assert answers(apart)[0].startswith("recommended: not known: it and random reshuffling were not run in one go")
    # what the full budget takes needs only the runs at the full budget
    short = standings(rows_of(BASELINE, PLAIN), [replace(ours[0], **other), *ours[1:]]).row(RECOMMENDED)
    assert short.spent == together.spent
    assert cells(short)[2] == "unknown"


def in_go(rows, name):
    return [replace(one, go=name, host="h") for one in rows]


def test_times_are_compared_within_one_go_only():
    """The same commit on the same processor is not enough: another go may have had another host or other work."""
    ours, plain = rows_of(RECOMMENDED, PLAIN, cost=0.5), rows_of(BASELINE, PLAIN)
    together = standings(in_go(plain, "a"), in_go(ours, "a")).row(RECOMMENDED)
    apart = standings(in_go(plain, "a"), in_go(ours, "b")).row(RECOMMENDED)
    mixed = standings(plain, in_go(ours, "b")).row(RECOMMENDED)
    assert together.has_goes
    assert together.savings["processor_seconds"].share == pytest.approx(0.5)
    assert "†" not in cells(together)[2]
    for found in (apart, mixed):
        assert np.isnan(found.savings["processor_seconds"].share)
        assert np.isnan(found.spent["processor_seconds"])
        assert found.savings[GRADIENTS] == together.savings[GRADIENTS]


def test_times_of_rows_without_a_go_are_marked():
    found = standings(rows_of(BASELINE, PLAIN), rows_of(RECOMMENDED, PLAIN, cost=0.5)).row(RECOMMENDED)
    assert not found.has_goes
    assert cells(found)[2].endswith("†")
    assert "†" not in cells(found)[3]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.09, 0.3, Level.NOT_WORSE),
        (-0.09, -0.01, Level.NOT_WORSE),  # behind beyond noise, and by less than the margin
        (-0.3, -0.11, Level.WORSE),
        (-0.3, -0.05, Level.NOT_KNOWN),
        (-0.3, 0.3, Level.NOT_KNOWN),  # no evidence is not evidence of no difference
        (-np.inf, np.inf, Level.NOT_KNOWN),
        (np.nan, np.nan, Level.NOT_KNOWN),
    ],
)
def test_level_is_told_by_the_interval_alone(low, high, expected):
    assert Level.of(Mean((low + high) / 2, low, high), 0.1) == expected


def test_times_of_one_curve_are_of_one_machine_and_seeds_may_be_of_several():
    def moved(is_elsewhere):
        """Both methods, these runs on a machine that takes three times as long."""
        return [
            [
                replace(one, machine="slow", processor_seconds=3 * one.processor_seconds) if is_elsewhere(one) else one
                for one in rows_of(name, PLAIN, cost=cost)
            ]
            for name, cost in ((BASELINE, 1.0), (RECOMMENDED, 0.5))
        ]

    by_budget = standings(*moved(lambda one: one.budget == 1)).row(RECOMMENDED)
    assert cells(by_budget)[2] == "unknown"  # although every run has its partner beside it
    assert by_budget.spent["processor_seconds"] == pytest.approx(0.5)  # of the runs at the full budget alone
    by_seed = standings(*moved(lambda one: one.seed == 1)).row(RECOMMENDED)
    assert by_seed.savings["processor_seconds"].share == pytest.approx(0.5)


def test_a_longer_run_extends_the_curve_and_leaves_the_full_budget_where_it_is():
    behind = {budget: accuracy - 0.6 for budget, accuracy in PLAIN.items()}
    full = standings(rows_of(BASELINE, PLAIN), rows_of(RECOMMENDED, behind, cost=0.5)).row(RECOMMENDED)
    longer = rows_of(RECOMMENDED, behind | {2.0: 90.0}, cost=0.5)
    found = standings(rows_of(BASELINE, PLAIN), longer).row(RECOMMENDED)
    assert not full.savings[GRADIENTS].is_reached
    part = (89.5 - 89.4) / (90.0 - 89.4)
    reached, plain = 0.5 * 2**part, 0.5 * 2**0.5  # half of the way from 89 to 90 in log cost
    assert found.savings[GRADIENTS].share == pytest.approx(reached / plain)
    assert (found.spent, found.accuracy, found.difference) == (full.spent, full.accuracy, full.difference)
    assert found.spent[GRADIENTS] == pytest.approx(0.5)
    apart = [replace(one, commit="b") if one.budget > 1 else one for one in longer]
    told = standings(rows_of(BASELINE, PLAIN), apart).row(RECOMMENDED)
    assert told.savings[GRADIENTS] == found.savings[GRADIENTS]
    assert cells(told)[2] == "unknown"
    assert told.spent == found.spent


def test_a_longer_budget_that_some_seeds_lack_takes_none_away_from_the_others():
    some = [one for one in rows_of(RECOMMENDED, PLAIN | {1.25: 92.0}, cost=0.5) if (one.budget, one.seed) != (1.25, 1)]
    found = standings(rows_of(BASELINE, PLAIN), some).row(RECOMMENDED)
    assert found.num_seeds == 3
    assert [point.budget for point in found.curve] == list(BUDGETS)


def test_what_never_gets_there_is_last_and_says_so():
    found = standings(rows_of(BASELINE, PLAIN), rows_of("worse", {0.25: 80.0, 1.0: 85.0}))
    assert [one.method for one in by_saving(found.rows)] == [BASELINE, "worse"]
    told = cells(found.row("worse"))
    assert told[2:4] == ["not reached", "not reached"]
    assert told[5:7] == ["85.00", "−5.00 (−5.00 to −5.00)"]
    (told,) = answers(found)
    assert told.startswith("worse: no, it did not reach the target")
    assert "−5.00 (−5.00 to −5.00)" in told


def test_behind_beyond_noise_is_no_although_some_resamples_get_there():
    """With paired seeds a method may be behind for sure, and reach the target of a lucky resample."""
    steep = {0.25: 70.0, 0.5: 80.0, 1.0: 90.0}
    of_seed = [-3.0, -1.0, 0.0, 1.0, 3.0]
    plain, ours = (
        [replace(one, accuracy=one.accuracy + of_seed[one.seed]) for one in rows_of(name, steep, seeds=5, cost=cost)]
        for name, cost in ((BASELINE, 1.0), ("m", 0.97))
    )
    ours = [replace(one, accuracy=one.accuracy - 0.6 - 0.1 * (one.seed % 2)) for one in ours]
    found = standings(plain, ours)
    assert found.row("m").difference.high < 0
    assert answers(found)[0].startswith("m: no, it did not reach the target, and ends behind")


def test_one_seed_that_does_not_get_there_says_nothing():
    found = standings(rows_of(BASELINE, PLAIN, seeds=1), rows_of("m", {0.25: 80.0, 1.0: 89.0}, seeds=1))
    (told,) = answers(found)
    assert told.startswith("m: not known:")
    assert "--seeds 5" in told


def test_a_baseline_that_diverged_sets_no_target():
    plain = [replace(one, loss=float("nan")) if one.budget == 1 else one for one in rows_of(BASELINE, PLAIN)]
    with pytest.raises(LabError, match=r"random reshuffling diverged, .* step size .*: give a smaller --step-size"):
        standings(plain)


def test_what_gets_there_with_some_seeds_only_is_not_told_from_noise():
    slightly_behind = {budget: accuracy - 0.52 for budget, accuracy in PLAIN.items()}
    ours = [
        replace(one, accuracy=one.accuracy + 0.3 * (one.seed - 2)) for one in rows_of("m", slightly_behind, seeds=5)
    ]
    (told,) = answers(standings(rows_of(BASELINE, PLAIN, seeds=5), ours))
    assert told.startswith("m: no difference beyond noise: it did not reach the target in the mean over seeds")


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


def compared(cost, *, seeds=5, jitter=0.0, **others):
    """Random reshuffling and methods with these costs, the clock of each seed off by up to `jitter`."""
    rows = [rows_of(BASELINE, PLAIN, seeds=seeds)]
    for name, share in {RECOMMENDED: cost, **others}.items():
        rows.append(
            [
                replace(one, processor_seconds=one.processor_seconds * (1 + jitter * (one.seed - 2) / 2))
                for one in rows_of(name, PLAIN, seeds=seeds, cost=share)
            ]
        )
    return standings(*rows)


def test_the_answer_is_yes_where_the_interval_is_below_one():
    (told,) = answers(compared(0.5, jitter=0.1))
    assert told.startswith("recommended: yes, it reached the target in 0.50 (95% interval 0.4")
    assert told.endswith("takes, with 0.50 (95% interval 0.50 to 0.50) of its example gradients.")


@pytest.mark.parametrize("cost", [0.9, 1.1])
def test_the_answer_is_no_difference_beyond_noise_where_the_interval_holds_one(cost):
    (told,) = answers(compared(cost, jitter=0.5))
    assert told.startswith(f"recommended: no difference beyond noise: it reached the target in {cost:.2f} (95% ")


def test_the_answer_is_no_where_the_interval_is_above_one():
    assert answers(compared(1.5, jitter=0.1))[0].startswith("recommended: no, it reached the target in 1.50 (95% ")


def test_every_method_has_an_answer_of_its_own_the_cheapest_first():
    sure, unsure = (rows_of(name, PLAIN, seeds=5, cost=cost) for name, cost in (("sure", 0.7), ("unsure", 0.6)))
    unsure = [replace(one, processor_seconds=one.processor_seconds * (0.2 + 0.4 * one.seed)) for one in unsure]
    own = rows_of("mine:Rule@0123abcd", PLAIN, seeds=5)
    told = answers(standings(rows_of(BASELINE, PLAIN, seeds=5), unsure, sure, own))
    begins = ("unsure: no difference", "sure: yes, ", "mine:Rule: no difference")
    assert all(one.startswith(begin) for one, begin in zip(told, begins, strict=True))


@pytest.mark.parametrize(("seeds", "few"), [(1, "1 seed"), (3, "3 seeds")])
def test_few_seeds_cannot_tell_anything_from_noise(seeds, few):
    (told,) = answers(compared(0.5, seeds=seeds))
    assert told.startswith("recommended: not known: it reached the target in 0.50 of the processor time")
    assert told.endswith(f", but {few} cannot tell that from noise. Ask again with --seeds 5 or more.")
    assert "interval" not in told


def test_where_the_smallest_budget_is_enough_nothing_is_known_and_it_says_what_to_do():
    flat = dict.fromkeys(PLAIN, 90.0)
    found = standings(rows_of(BASELINE, flat), rows_of("other", flat))
    assert answers(found)[0].startswith("other: not known: random reshuffling reached the target with the smallest")
    assert cells(found.row("other"))[2:4] == ["unknown", "unknown"]
    assert len(answers(standings(rows_of(BASELINE, PLAIN)))) == 1


@pytest.mark.parametrize(("width", "is_shown"), [(80, False), (140, True)])
def test_a_terminal_has_the_columns_that_it_has_room_for_and_the_caption_describes_them(width, is_shown):
    out = io.StringIO()
    show_standings(Console(file=out, width=width), compared(0.5, jitter=0.1, **{"recommended fixed budget": 1.2}))
    table, _, caption = out.getvalue().partition("Time to target:" if not is_shown else "Step:")
    assert "…" not in table
    assert max(len(line) for line in out.getvalue().splitlines()) <= width
    assert {name in table for name in ("step", "accuracy", "at half")} == {is_shown}
    assert {f"{name}:" in caption.partition("In brackets")[0] for name in ("spent", "at half")} == {is_shown}
    assert "1.20 (1.20, 1.20)" in table  # on one line


def test_noise_of_more_than_a_point_is_warned_of():
    quiet = standings(rows_of(BASELINE, PLAIN))  # seeds are a tenth of a point apart
    assert quiet.noise == pytest.approx(0.1)
    assert warnings(quiet) == []
    noisy = standings([replace(one, accuracy=one.accuracy + 1.4 * one.seed) for one in rows_of(BASELINE, PLAIN)])
    assert noisy.noise == pytest.approx(1.5)
    (told,) = warnings(noisy)
    assert told.startswith("Noisy: random reshuffling alone differs by 1.5 points from seed to seed")
    assert warnings(standings(rows_of(BASELINE, PLAIN, seeds=1))) == []


def test_another_step_size_than_that_of_random_reshuffling_is_warned_of():
    def with_step(method, size):
        return [replace(one, step_size=size) for one in rows_of(method, PLAIN)]

    random = with_step(BASELINE, 0.02)
    assert warnings(standings(random, with_step(RECOMMENDED, 0.02))) == []
    (told,) = warnings(standings(random, with_step(RECOMMENDED, 0.05), with_step("mine:Rule@0123abcd", 0.1)))
    assert told.startswith("Step sizes differ: random reshuffling 0.02, recommended 0.05, mine:Rule 0.1. Each was")


def test_an_ordering_of_ones_own_is_called_by_its_name():
    found = standings(rows_of(BASELINE, PLAIN), rows_of("mine:Rule@0123abcd", PLAIN))
    assert cells(found.row("mine:Rule@0123abcd"))[0] == "mine:Rule"
    assert "@" not in answers(found)[0]

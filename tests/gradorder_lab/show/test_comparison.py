"""The page of `gradorder compare`, from rows written by hand."""

import html
import re
from dataclasses import replace
from math import nan

import pytest
from benchmark_rows import row, rows_of

from gradorder_lab.benchmark.contest import Contest
from gradorder_lab.benchmark.methods import BASELINE, RECOMMENDED
from gradorder_lab.benchmark.standings import Standings
from gradorder_lab.benchmark.task import Task
from gradorder_lab.show.comparison import Plot, cost_of_asking, render_comparison, write_comparison
from gradorder_lab.show.standings import does_it_pay, warnings
from gradorder_lab.show.styles import line_styles

PLAIN = {0.25: 86.0, 0.5: 88.0, 1.0: 90.0}
TASK = Task("rings", "terrain", "2-layer", epochs=10, step_sizes=(0.1, 0.2))
CONTEST = Contest(TASK, (BASELINE, RECOMMENDED), (0.25, 0.5, 1.0), seeds=5, search_seeds=1)
SEARCHED = [
    row(name, 0.7, 0, 80 + 10 * size, step_size=size, validates=True)
    for name in (BASELINE, RECOMMENDED)
    for size in (0.05, 0.1)
]
RUNS = [*SEARCHED, *rows_of(BASELINE, PLAIN, seeds=5), *rows_of(RECOMMENDED, PLAIN, seeds=5, cost=0.5)]


def shown(runs, contest=CONTEST):
    found = Standings.of("rings", 0.5, runs)
    return found, html.unescape(render_comparison(contest, found, runs))


def test_the_page_has_the_answer_the_table_the_budgets_the_steps_and_the_cost():
    found, page = shown(RUNS)
    assert does_it_pay(found) in page
    assert does_it_pay(found).startswith("Yes: recommended")
    assert cost_of_asking(RUNS) in page
    assert "90.10% (89.90 to 90.30)" in page
    assert '<span class="chosen">0.1: 80.90%</span>' in page
    assert page.count("<polyline") == 2 * 2 + 2  # two plots and the keys
    assert page.count("<circle") == 2 * 6 + 2
    assert "http" not in page.replace("http-equiv", "")  # it needs no network
    assert "<script" not in page


def test_the_cost_of_asking_is_of_all_runs():
    # 4 searches of 0.7, and 5 seeds of budgets 1.75 for both, ours at half the cost
    spent = 4 * 0.7 + 5 * 1.75 * 1.5
    assert cost_of_asking(RUNS) == (
        f"To know this took 34 trainings, 4 to search step sizes and 30 that count: {spent:.0f} times plain training, "
        f"{spent:.1f} s of processor time."
    )


def test_noise_is_warned_of_on_the_page():
    noisy = [replace(one, accuracy=one.accuracy + 2 * one.seed) for one in RUNS]
    found, page = shown(noisy)
    (told,) = warnings(found)
    assert told in page
    assert "Noisy" not in shown(RUNS)[1]


def test_names_are_text_and_never_markup():
    evil = "<script>alert(1)</script>:Rule@0123abcd"
    runs = [*RUNS, *rows_of(evil, PLAIN, seeds=5)]
    text = render_comparison(CONTEST, Standings.of("rings", 0.5, runs), runs)
    assert "<script" not in text
    assert "&lt;script" in text


def test_places_of_the_curve():
    found = Standings.of("rings", 0.5, RUNS)
    plot = Plot.of(found, "share", line_styles([[BASELINE, RECOMMENDED]]))
    random, ours = plot.lines
    assert [x for x, _, _ in random.points] == pytest.approx([100 * b / 1.04 for b in PLAIN], abs=0.01)
    assert [x for x, _, _ in ours.points] == pytest.approx([50 * b / 1.04 for b in PLAIN], abs=0.01)
    # 86.1 to 90.1 with a quarter of that as room on either side
    assert [y for _, y, _ in ours.points] == pytest.approx([100 / 6, 50, 500 / 6], abs=0.01)
    assert plot.target == pytest.approx(100 * (89.6 - 85.1) / 6, abs=0.01)
    assert all(low < y < high for (_, y, _), (_, low, high) in zip(ours.points, ours.bars, strict=True))


def test_losses_are_told_as_losses_and_one_seed_has_no_bars(tmp_path):
    runs = [replace(one, accuracy=nan, loss=100 - one.accuracy) for one in RUNS if one.seed == 0]
    found = Standings.of("rings", 1.0, runs)
    page = write_comparison(CONTEST, found, runs, tmp_path).read_text()
    assert (tmp_path / "compare.html").exists()
    assert "Loss against cost" in page
    assert 'bar-of"' not in page
    assert not re.search(r"-1\d\b", html.unescape(page).partition("<body>")[2].partition("stroke-dash")[0])
    assert "ccuracy" not in page.partition("<body>")[2]


def test_without_a_search_it_says_so():
    runs = [one for one in RUNS if not one.validates]
    assert "Not searched: every method was run with the one that was given, 0.1." in shown(runs)[1]

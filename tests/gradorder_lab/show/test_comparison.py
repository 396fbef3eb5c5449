"""The page of `gradorder compare`, from rows written by hand."""

import html
import re
from dataclasses import replace
from math import nan

import pytest
from benchmark_rows import row, rows_of

from gradorder_lab.benchmark.contest import Contest
from gradorder_lab.benchmark.standings import Standings
from gradorder_lab.benchmark.task import Task
from gradorder_lab.methods import BASELINE, RECOMMENDED
from gradorder_lab.show.comparison import cost_figure, cost_of_asking, render_comparison, write_comparison
from gradorder_lab.show.standings import answers, warnings

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
    (told,) = answers(found)
    assert told in page
    assert told.startswith("recommended: yes")
    assert cost_of_asking(RUNS) in page
    assert "90.10% (89.90 to 90.30)" in page
    assert '<span class="chosen">0.1: 80.90%</span>' in page
    assert page.count('<div class="plot"') == 1
    assert not re.search(r"(src|href)=.http", page)  # it needs no network


def test_the_cost_of_asking_is_of_all_runs():
    # 4 searches of 0.7, and 5 seeds of budgets 1.75 for both, ours at half the cost
    spent = 4 * 0.7 + 5 * 1.75 * 1.5
    told = cost_of_asking(RUNS)
    assert "34 trainings, 4 to search" in told
    assert f"{spent:.0f} times plain training, {spent:.1f} s" in told


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
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_the_figure_has_every_methods_curve_against_both_costs_and_the_target():
    figure = cost_figure(Standings.of("rings", 0.5, RUNS))
    random, ours, target = figure.panels[0].curves
    assert (random.label, ours.label, target.label) == (BASELINE, RECOMMENDED, "target")
    assert random.x["share"].tolist() == pytest.approx(list(PLAIN))
    assert ours.x["share"].tolist() == pytest.approx([budget / 2 for budget in PLAIN])
    assert ours.x["seconds"].tolist() == pytest.approx([budget / 2 for budget in PLAIN])
    assert ours.band.mean.tolist() == pytest.approx([86.1, 88.1, 90.1])
    assert (ours.band.low < ours.band.mean).all()
    assert (ours.band.mean < ours.band.high).all()
    assert target.band.mean.tolist() == pytest.approx([89.6, 89.6])


def test_losses_are_told_as_losses_and_one_seed_has_no_bars(tmp_path):
    runs = [replace(one, accuracy=nan, loss=100 - one.accuracy) for one in RUNS if one.seed == 0]
    found = Standings.of("rings", 1.0, runs)
    page = write_comparison(CONTEST, found, runs, tmp_path).read_text()
    assert (tmp_path / "compare.html").exists()
    assert "Loss against cost" in page
    (curve, *_) = cost_figure(found).panels[0].curves
    assert (curve.band.mean > 0).all()
    assert curve.band.low.tolist() == curve.band.mean.tolist() == curve.band.high.tolist()
    assert "ccuracy" not in page.partition("<body>")[2].partition("<script")[0]


def test_without_a_search_it_says_so():
    runs = [one for one in RUNS if not one.validates]
    assert "Not searched" in shown(runs)[1]

import json

import numpy as np
import pytest

from gradorder_lab.figures import Curve, Figure, Panel
from gradorder_lab.runs.summary import Band
from gradorder_lab.show import figure_data as module
from gradorder_lab.show.figure_data import first_view, num_digits


def curve(label, mean, low=None, high=None):
    mean = np.array(mean, dtype=float)
    x = {"epoch": np.arange(len(mean), dtype=float)}
    low, high = (mean if ends is None else np.array(ends, dtype=float) for ends in (low, high))
    return Curve(label, x, Band(mean, low, high), num_seeds=3)


def figure(*panels, is_log=True):
    return Figure("name", "title", "caption", panels, 2, "synthetic", x_labels={"epoch": "epoch"}, is_log=is_log)


def figure_data(figures):
    """As the page's script reads it."""
    return json.loads(json.dumps(module.figure_data(figures), allow_nan=False))


def test_equal_arrays_are_kept_once():
    panel = Panel("one", (curve("random", [3, 2, 1]), curve("descending", [3, 2, 0.5])))
    data = figure_data([figure(panel, panel)])
    assert data["arrays"] == [[3, 2, 1], [0, 1, 2], [3, 2, 0.5]]
    first, second = data["figures"]["name"]["panels"]
    assert first == second


def test_numbers_are_short_where_curves_are_far_apart():
    panel = Panel("one", (curve("random", [1.23456789, 0.1]), curve("descending", [1.23456789, 0.2])))
    assert num_digits(panel) == 6
    assert figure_data([figure(panel)])["arrays"][0] == [1.23457, 0.1]


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12])
def test_tiny_differences_survive_rounding(gap):
    ends = 7.280279435637256 * np.array([1, 1 - gap])
    panel = Panel("one", tuple(curve(label, [8.0, end]) for label, end in zip("ab", ends, strict=True)))
    arrays = figure_data([figure(panel)])["arrays"]
    shown = arrays[0][1] - arrays[2][1]
    assert shown == pytest.approx(ends[0] - ends[1], rel=1e-3)


def test_a_curve_that_hardly_moves_still_moves():
    start = 7.280279444799264
    panel = Panel("one", (curve("random", [start, start * (1 - 1e-9), start * (1 - 2e-9)]),))
    mean = figure_data([figure(panel)])["arrays"][0]
    assert len(set(mean)) == 3


def test_what_is_not_finite_becomes_null():
    panel = Panel("one", (curve("random", [1, np.nan, np.inf], low=[1, -np.inf, 2]),))
    data = figure_data([figure(panel)])
    assert data["arrays"][0] == [1, None, None]
    assert [1, None, 2] in data["arrays"]


def test_a_diverged_panel_and_an_empty_one_need_no_special_care():
    diverged = Panel("one", (curve("random", [np.nan, np.inf]),))
    assert num_digits(diverged) == 5
    assert num_digits(Panel("none", (), ("random",))) == 5
    assert first_view(figure(diverged)) == "log"
    assert first_view(figure(Panel("none", ()))) == "log"


def test_the_first_view_follows_the_figure_unless_it_would_show_nothing():
    moving = Panel("one", (curve("random", [2, 1]),))
    still = Panel("two", (curve("random", [7.28, 7.28 * (1 - 1e-8)]),))
    assert first_view(figure(moving)) == "log"
    assert first_view(figure(moving, is_log=False)) == "linear"
    assert first_view(figure(moving, still)) == "log"
    assert first_view(figure(still)) == "against"


def test_many_bands_are_first_shown_against_random():
    four = tuple(curve(f"{number}", [2, 1]) for number in range(4))
    assert first_view(figure(Panel("four", four))) == "log"
    assert first_view(figure(Panel("four", four), Panel("five", (*four, curve("random", [2, 1]))))) == "against"

from itertools import combinations

import pytest

from gradorder_lab import paper
from gradorder_lab.paper.convex import ORDERINGS
from gradorder_lab.runs.summary import Summary
from gradorder_lab.show.styles import line_styles


def luminance(colour):
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def labels_of_all_figures():
    figures = [figure for one in paper.EXPERIMENTS.values() for figure in one.figures(Summary({}))]
    return [[label for panel in figure.panels for label in panel.missing] for figure in figures]


def test_every_ordering_has_a_colour_and_a_dash_of_its_own():
    styles = line_styles([ORDERINGS])
    for first, second in combinations(styles.values(), 2):
        assert first.light != second.light
        assert first.dark != second.dark
        assert first.dash != second.dash


def test_no_two_curves_of_a_figure_look_the_same():
    every = labels_of_all_figures()
    styles = line_styles(every)
    for labels in every:
        looks = [(styles[label].light, styles[label].dash) for label in dict.fromkeys(labels)]
        assert len(looks) == len(set(looks))


def test_an_ordering_keeps_its_colour_under_longer_names():
    styles = line_styles([["random", "descending"], ["selection, descending", "all data, random", "mini ordered"]])
    assert styles["selection, descending"].light == styles["descending"].light == styles["mini ordered"].light
    assert styles["all data, random"].light == styles["random"].light


def test_more_labels_than_dashes_still_have_styles():
    assert len(line_styles([[f"method {number}" for number in range(20)]])) == 20


@pytest.mark.parametrize(("background", "theme"), [("#ffffff", "light"), ("#14171a", "dark")])
def test_every_line_stands_out_from_the_background(background, theme):
    for style in line_styles(labels_of_all_figures()).values():
        assert contrast(getattr(style, theme), background) >= 3

import math

import pytest

from gradorder_lab.judge.claims import Cell, Claim
from gradorder_lab.judge.effects import Effect
from gradorder_lab.paper import grey_images
from gradorder_lab.paper.orders import cell_name
from gradorder_lab.paper.tuned_steps import ONE_STEP, OWN_STEPS, RANDOMS_STEP, answering_cell
from gradorder_lab.show.answer import answer


def effect(mean, share):
    return Effect(mean, mean - 0.001, mean + 0.001, 1.0, 100, loss_difference=share)


def falling(mean, shares_of):
    """C2: schedule -> relative differences of F, on as many data sets as there are shares, which leave 30% and more."""
    return Claim(
        "C2",
        "",
        tuple(
            Cell(
                (f"data {number}",),
                "descending - random",
                ("", schedule),
                "lower",
                effect(mean, share),
                left=left,
                name=cell_name("descending", "random", schedule),
            )
            for schedule, shares in shares_of.items()
            for number, (share, left) in enumerate(zip(shares, (0.3, 0.9, 0.5), strict=False))
        ),
    )


def constant(mean):
    return Claim("C1", "", (Cell(("data",), "descending - random", (), "equal", effect(mean, 0.0)),))


def first(c2, c1=None):
    return answer([c1 or constant(5.0), c2])[0]


def test_the_change_of_the_loss_names_its_step_size_and_what_is_left_undone():
    told = first(falling(-0.5, {"1/(1+t)": (-0.149, -0.261, -0.2), "1/(1+t/n)": (0.015,)}), constant(0.0))
    for numbers in ("−26% to −15% with step size 1/(1+t)", "30% to 90%", "+1.5% with step size 1/(1+t/n)"):
        assert numbers in told
    assert "(C2: reproduced, holds in 4 of 4)" in told
    assert "alike in 1 of 1 cells (C1)" in told


def test_what_the_runs_do_not_say_is_not_known():
    assert "not known" in first(falling(-0.5, {"1/(1+t)": (math.nan,)}))
    unknown = first(Claim("C2", "", ()), Claim("C1", "", ()))
    assert unknown.count("known from these runs") == 2
    assert "alike in 0 of 1 cells" in first(falling(0.5, {"1/(1+t)": (0.2,)}), constant(5.0))


def on_networks(*claims):
    return answer([constant(0.0), falling(-0.5, {"1/(1+t)": (-0.2,)}), *claims])[1]


def hardest_half(name, mean, own_mean=None):
    """C7 or C8: test errors with one learning rate for all and, if there is one, with each its own."""
    found = {
        "": -7.0,
        answering_cell(RANDOMS_STEP): -6.0,
        answering_cell(ONE_STEP): mean,
        answering_cell(OWN_STEPS): own_mean,
    }
    cells = [
        Cell(
            (),
            "mini ordered - full random",
            (),
            "lower",
            None if one is None else Effect(one, one - 0.1, one + 0.1, 1.0, 5, unit="points"),
            name=cell,
        )
        for cell, one in found.items()
    ]
    return Claim(name, "", tuple(cells))


def test_the_cells_that_the_answer_names_are_those_of_the_test_error_with_these_learning_rates(full_summary):
    for data in ("mnist", "fashion-mnist"):
        cells = [cell for cell in grey_images.most_accurate(data, full_summary).cells if cell.name]
        named = {cell.name: cell for cell in cells}
        assert len(named) == len(cells)
        for reading in (ONE_STEP, OWN_STEPS):
            cell = named[answering_cell(reading)]
            assert cell.part == ("2-layer net", "batch 128", "sort within", "test error")
            assert cell.reading[1] == reading
            assert cell.compared == "mini ordered - full random"


def test_what_it_gains_on_networks():
    told = on_networks(hardest_half("C7", -0.99, -0.14), hardest_half("C8", -1.11, 0.19))
    one_rate, own_rates = told.split(";")
    for expected in (
        "−0.99 points (−1.09 to −0.89 points) on MNIST",
        "−1.11 points (−1.21 to −1.01 points) on Fashion",
    ):
        assert expected in one_rate
    for expected in (
        "−0.14 points (−0.24 to −0.04 points) on MNIST",
        "+0.19 points (+0.09 to +0.29 points) on Fashion",
    ):
        assert expected in own_rates
    only_one = on_networks(hardest_half("C8", -1.11))
    assert "MNIST and" not in only_one
    assert "not known" in only_one
    assert "not known" in on_networks()
    assert on_networks() == on_networks(hardest_half("C7", None))


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([constant(0.0), falling(-0.5, {"1/(1+t)": (-0.2,)})], "2 reproduced."),
        ([constant(5.0), falling(-0.5, {"1/(1+t)": (-0.2,)})], "1 reproduced and 1 not reproduced."),
        (
            [constant(5.0), falling(-0.5, {"1/(1+t)": (-0.2,)}), Claim("C3", "", ())],
            "1 reproduced, 1 not reproduced and 1 not tested.",
        ),
    ],
)
def test_how_many_claims_hold(claims, expected):
    assert answer(claims)[2].endswith(expected)

import math

import pytest

from gradorder_lab.judge.claims import Claim, Comparison
from gradorder_lab.judge.effects import Effect
from gradorder_lab.show.answer import answer
from gradorder_lab.show.headline import Headline, StrategyCosts

RANDOM = StrategyCosts("full random", 4, 4, {"trained": 1.0, "forward": 1.0})


def effect(mean, share):
    return Effect(mean, mean - 0.001, mean + 0.001, 1.0, 100, loss_difference=share)


def falling(mean, *shares):
    """C2 on as many data sets as there are shares."""
    found = [(f"data {number}", effect(mean, share)) for number, share in enumerate(shares)]
    return Claim("C2", "", tuple(Comparison(data, "descending - random", "", 0, "lower", one) for data, one in found))


def constant(mean):
    return Claim("C1", "", (Comparison("data", "descending - random", "", 0, "equal", effect(mean, 0.0)),))


def first(c2, c1=None):
    return answer([c1 or constant(5.0), c2], Headline((), ()))[0]


def test_what_the_order_does_to_the_loss():
    assert first(falling(-0.5, -0.149, -0.261, -0.2), constant(0.0)) == (
        "Yes, where the step size falls at every iteration: in decreasing order the loss ends 15% to 26% below "
        "random’s (C2: reproduced); with a constant step all orders end about alike (C1: reproduced)."
    )
    assert "ends 15% below random’s (C2" in first(falling(-0.5, -0.151, -0.149))
    assert "ends lowest (C2" in first(falling(-0.5, math.nan))
    assert first(falling(0.5, 0.2)) == (
        "Not as the paper says: with a step size that falls at every iteration decreasing order is not best "
        "(C2: not reproduced); with a constant step the orders do not end alike (C1: not reproduced)."
    )
    unknown = first(Claim("C2", "", ()), Claim("C1", "", ()))
    assert unknown == (
        "Not known from these runs where the step size falls at every iteration (C2: not tested at this size); with a "
        "constant step it is not known (C1: not tested at this size)."
    )


def on_networks(*strategies):
    return answer([constant(0.0), falling(-0.5, -0.2)], Headline((RANDOM, *strategies) if strategies else (), ()))[1]


def test_what_it_saves_on_networks():
    cheap = StrategyCosts("full ordered", 4, 3, {"trained": 0.1, "forward": 0.1})  # not on every task
    best = StrategyCosts("mini ordered", 4, 4, {"trained": 0.275, "forward": 0.82})
    dear = StrategyCosts("mini ordered, late", 4, 4, {"trained": 0.2, "forward": 0.9})
    picked = StrategyCosts("mini random", 4, 4, {"trained": 0.63, "forward": 0.63})
    assert on_networks(cheap, dear, best, picked) == (
        "On networks, at equal test accuracy, the cheapest of the paper’s orders (mini ordered) took 0.28 of the "
        "example gradients that full random takes and, scoring included, 0.82 of its forward passes; mini random, "
        "without any order, took 0.63."
    )
    assert on_networks(best).endswith("0.82 of its forward passes.")
    assert on_networks(cheap, picked) == (
        "On networks none of the paper’s orders came to the accuracy of full random on every task."
    )
    assert on_networks() == "Whether an order saves anything on networks is not known from these runs."


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([constant(0.0), falling(-0.5, -0.2)], "Of the paper’s 2 claims: 2 reproduced."),
        ([constant(5.0), falling(-0.5, -0.2)], "Of the paper’s 2 claims: 1 reproduced and 1 not reproduced."),
        (
            [constant(5.0), falling(-0.5, -0.2), Claim("C3", "", ())],
            "Of the paper’s 3 claims: 1 reproduced, 1 not reproduced and 1 not tested at this size.",
        ),
    ],
)
def test_how_many_claims_hold(claims, expected):
    assert answer(claims, Headline((), ()))[2] == expected

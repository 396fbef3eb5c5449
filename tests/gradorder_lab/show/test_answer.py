import math

import pytest

from gradorder_lab.judge.claims import Claim, Comparison
from gradorder_lab.judge.effects import Effect
from gradorder_lab.paper.tuned_steps import OWN_STEPS
from gradorder_lab.show.answer import answer


def effect(mean, share):
    return Effect(mean, mean - 0.001, mean + 0.001, 1.0, 100, loss_difference=share)


def falling(mean, *shares):
    """C2 on as many data sets as there are shares."""
    found = [(f"data {number}", effect(mean, share)) for number, share in enumerate(shares)]
    return Claim("C2", "", tuple(Comparison(data, "descending - random", "", 0, "lower", one) for data, one in found))


def constant(mean):
    return Claim("C1", "", (Comparison("data", "descending - random", "", 0, "equal", effect(mean, 0.0)),))


def first(c2, c1=None):
    return answer([c1 or constant(5.0), c2])[0]


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


def on_networks(*claims):
    return answer([constant(0.0), falling(-0.5, -0.2), *claims])[1]


def hardest_half(name, mean, own_mean=None):
    """C7 or C8: test errors with one step size for all and, if there is one, with each its own."""
    what = ("2-layer net, batch 128, sort within", "mini ordered - full random, test error")
    others = [
        (what[0], "mini ordered - mini random, test error", "sort within, from epoch 0 of 10", 0, -7.0),
        (what[0], "mini ordered - full random, train error", "sort within, from epoch 0 of 10", 0, -8.0),
        ("7-layer net, batch 128, sort within", what[1], "sort within, from epoch 0 of 10", 0, -9.0),
        (*what, "sort within, full random's step size for all", 1, -6.0),
    ]
    asked = [(*what, "sort within, from epoch 0 of 10", 0, mean), (*what, f"sort within, {OWN_STEPS}", 1, own_mean)]
    return Claim(
        name,
        "",
        tuple(
            Comparison(
                data,
                compared,
                reading,
                rank,
                "lower",
                None if one is None else Effect(one, one - 0.1, one + 0.1, 1.0, 5, unit="points"),
            )
            for data, compared, reading, rank, one in [*others, *asked]
        ),
    )


def test_what_it_gains_on_networks():
    assert on_networks(hardest_half("C7", -0.99, -0.14), hardest_half("C8", -1.11, 0.19)) == (
        "On networks, training on the hardest half of each batch (sort within) changes full random’s test error by "
        "−0.99 points (−1.09 to −0.89 points) on MNIST and −1.11 points (−1.21 to −1.01 points) on "
        "Fashion-MNIST where all methods have one step size; where each has its own, by −0.14 points (−0.24 to "
        "−0.04 points) on MNIST and +0.19 points (+0.09 to +0.29 points) on Fashion-MNIST (2-layer net, batch "
        "128)."
    )
    assert on_networks(hardest_half("C8", -1.11)).endswith(
        "by −1.11 points (−1.21 to −1.01 points) on Fashion-MNIST where all methods have one step size; where "
        "each has its own, it is not known from these runs (2-layer net, batch 128)."
    )
    unknown = "Whether an order gains anything on networks is not known from these runs."
    assert on_networks() == on_networks(hardest_half("C7", None)) == unknown


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
    assert answer(claims)[2] == expected

"""Models made to mislead: the norm is the example's own, or there is none."""

import pytest
import torch
from adversaries import INDEPENDENT, MIXED, NUMBERS_FROM_OTHERS
from right_or_refused import REFUSED, assert_right, assert_right_or_refused, in_batch, observed, scored

from gradorder.norms.operation import UnprovenError
from gradorder.norms.walk import walk

# The library may say that it goes a slower way: here only the numbers count.
pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = [1, 4, 5]
"""One, the width, the number of positions."""
COMPILED = "compiled ahead of time"
EVERY = [pytest.param(name, marks=pytest.mark.slow if name == COMPILED else ()) for name in INDEPENDENT]
UNPROVEN = {
    "a function called Clone", "a function called View", "a function called _DDPSink", "a function of a parameter",
    "a function of activations", "a function of the examples together", "addcmul", "bilinear", "chunked and stacked",
    "clamped", "diagonal of a product", "diagonal of all pairs", "distances to parameters", "examples as groups",
    "gradient of the input", "inverse of a parameter", "list of losses", "looked up by gather",
    "looked up by index_select", "matrix times vectors", "maximum with a parameter", "orthogonal weight",
    "power of a parameter", "row by row", "scattered", "stacked for bmm", "tokens in front, concatenated",
    "written into",
}  # fmt: skip
"""Independent examples that the graph cannot tell apart: they are differentiated one by one."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", EVERY)
def test_a_score_is_right_whatever_the_model_does_and_what_is_observed_is_right_or_refused(name, size):
    """One example after the other always works: a score has nothing to refuse."""
    adversary = INDEPENDENT[name]()
    adversary.model.eval()
    batch = adversary.batch(size)
    expected = in_batch(adversary.model, batch, adversary.losses)
    assert_right(scored(adversary.model, batch, adversary.losses), expected, rtol=1e-7)
    assert_right_or_refused(observed(adversary.model, batch, adversary.losses), expected, rtol=1e-7)


def is_proved(adversary):
    torch.manual_seed(0)
    values = adversary.losses(adversary.model.eval(), adversary.batch(4))
    try:
        walk(values, {id(parameter) for parameter in adversary.model.parameters()})
    except UnprovenError:
        return False
    return True


def test_the_graph_serves_all_independent_examples_but_these():
    tried = [name for name in INDEPENDENT if name != COMPILED]
    assert {name for name in tried if not is_proved(INDEPENDENT[name]())} == UNPROVEN


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MIXED)
def test_examples_that_mix(name, size):
    """Each norm is that of the loss in this batch, or refused; a training step is refused."""
    adversary = MIXED[name]()
    batch = adversary.batch(size)
    norms = scored(adversary.model, batch, adversary.losses)
    assert_right_or_refused(norms, in_batch(adversary.model, batch, adversary.losses), rtol=1e-7)
    if size > 1:
        assert observed(adversary.model, batch, adversary.losses) is REFUSED


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NUMBERS_FROM_OTHERS)
def test_numbers_that_come_from_other_examples(name, size):
    """They are numbers like any other: each norm is that of the loss in this batch, or refused."""
    adversary = NUMBERS_FROM_OTHERS[name]()
    batch = adversary.batch(size)
    expected = in_batch(adversary.model, batch, adversary.losses)
    assert_right_or_refused(scored(adversary.model, batch, adversary.losses), expected, rtol=1e-7)
    assert_right_or_refused(observed(adversary.model, batch, adversary.losses), expected, rtol=1e-7)

"""Models made to mislead: the norm is the example's own, or there is none."""

import pytest
from adversaries import INDEPENDENT, MIXED, NUMBERS_FROM_OTHERS
from right_or_refused import REFUSED, assert_right, assert_right_or_refused, in_batch, observed, scored

# The library may say that it goes a slower way: here only the numbers count.
pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = [1, 2, 4, 5]
"""One, the smallest that can be mixed up, the width, the number of positions."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", INDEPENDENT)
def test_a_score_is_right_whatever_the_model_does_and_what_is_observed_is_right_or_refused(name, size):
    """One example after the other always works: a score has nothing to refuse."""
    adversary = INDEPENDENT[name]()
    adversary.model.eval()
    batch = adversary.batch(size)
    expected = in_batch(adversary.model, batch, adversary.losses)
    assert_right(scored(adversary.model, batch, adversary.losses), expected, rtol=1e-7)
    assert_right_or_refused(observed(adversary.model, batch, adversary.losses), expected, rtol=1e-7)


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

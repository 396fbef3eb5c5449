import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gradorder.checks import part_of
from gradorder.sklearn import compiled

decimals = st.decimals(0, 1, places=4).map(float).filter(bool)


def exactly(fraction, num):
    """With the fraction as it is written in decimals."""
    return max(1, math.ceil(Fraction(str(fraction)) * num))


@given(fraction=decimals, num=st.integers(1, 10**7))
@example(fraction=0.55, num=100)
@example(fraction=0.07, num=100)
@example(fraction=0.29, num=10**7)
@example(fraction=0.0001, num=1)
@example(fraction=1.0, num=1)
def test_it_is_the_count_of_exact_arithmetic(fraction, num):
    assert part_of(fraction, num) == exactly(fraction, num)


@pytest.mark.parametrize("num", [1, 2, 3, 10, 999, 10**6])
def test_what_was_computed_counts_as_what_was_meant(num):
    """A third of three is one, also where the third was divided out or summed up."""
    for every in range(1, 20):
        assert part_of(1 / every, num * every) == num
    assert part_of(0.1 + 0.2, 10 * num) == 3 * num


def test_the_compiled_loop_counts_alike():
    written = compiled.num_kept.py_func if hasattr(compiled.num_kept, "py_func") else compiled.num_kept
    generator = np.random.default_rng(0)
    fractions = [round(float(value), 3) for value in generator.random(300)] + [0.55, 0.07, 1.0, 1 / 3]
    for fraction in filter(None, fractions):
        for num in (1, 7, 100, 1000, 99_991):
            assert written(fraction, num) == compiled.num_kept(fraction, num) == part_of(fraction, num)

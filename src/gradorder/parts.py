"""A part of a whole, in examples: the one place where fractions become counts."""

import math

ROUNDING = 2.0**-50
"""A product this close to a whole number is that number: 0.07 is no float, and 0.07 * 100 is a little more than 7.

Fraction and product are each rounded by at most 2^-53 of their size; four times that leaves room for a fraction that
was itself computed, such as 0.1 + 0.2.
"""


def part_of(fraction: float, num: int) -> int:
    """ceil(fraction * num), at least 1.

    Example:
        >>> part_of(0.07, 100), part_of(0.55, 100), part_of(0.5, 3), part_of(0.001, 3)
        (7, 55, 2, 1)
    """
    return max(1, math.ceil(fraction * num * (1 - ROUNDING)))

"""What an SVG shows: its words and its numbers, without the names that it uses inside."""

import re

_NUMBER = re.compile(r"(?<![\w#.-])-?\d+(?:\.\d+)?(?![\w.])")
_NAME = re.compile(r'(?<=[#"])[^"#()]+(?=[")])')
"""What may be one: all of them are replaced in one pass, as a picture has hundreds."""

TOLERANCE = 1.5e-6
"""Matplotlib writes six decimals. The same picture, computed with other last bits (1e-12 at most, for coordinates below
1000), can be rounded up where it was rounded down: then a number differs by 1e-6."""


def shown(svg):
    """Everything but the numbers, in which every number is a mark, and the numbers.

    A clip path or marker is named by a hash of its coordinates, last bits included: names are replaced by their place.
    """
    places = {name: f"name{place}" for place, name in enumerate(dict.fromkeys(re.findall(r' id="([^"]+)"', svg)))}
    svg = _NAME.sub(lambda found: places.get(found[0], found[0]), svg)
    return _NUMBER.sub("number", svg), [float(number) for number in _NUMBER.findall(svg)]


def is_same(one, other):
    (words, numbers), (other_words, other_numbers) = shown(one), shown(other)
    return words == other_words and all(
        abs(number - other) <= TOLERANCE for number, other in zip(numbers, other_numbers, strict=True)
    )

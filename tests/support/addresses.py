"""Names of tests without the addresses of objects: workers that run tests side by side compare the names."""

import re

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def without_address(value):
    """As a string, for `ids=`."""
    return _ADDRESS.sub("", str(value))

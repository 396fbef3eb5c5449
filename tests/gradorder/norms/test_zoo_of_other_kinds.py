"""Images, sounds, two-sided models and those of our own: each is exact or refused, and docs/zoo.md says which."""

import pytest
import zoo_table
from zoo import OTHERS
from zoo_verdicts import verdict

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", OTHERS)
def test_exact_or_refused(name):
    found = verdict(OTHERS[name])
    assert not [word for word in found.all if word.startswith(("wrong", "fails"))], found
    assert found == zoo_table.read()[name]

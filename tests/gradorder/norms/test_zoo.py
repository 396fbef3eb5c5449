"""Language models of `transformers`: each is exact or refused, and docs/zoo.md says which."""

import pytest
import zoo_table
from zoo import ARCHITECTURES, LANGUAGE
from zoo_verdicts import verdict

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", LANGUAGE)
def test_exact_or_refused(name):
    found = verdict(LANGUAGE[name])
    assert not [word for word in found.all if word.startswith(("wrong", "fails"))], found
    assert found == zoo_table.read()[name]


def test_the_table_has_every_architecture():
    assert list(zoo_table.read()) == list(ARCHITECTURES)

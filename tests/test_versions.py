"""The versions that are promised, tested and refused are the same everywhere."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIBRARY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BY_USERS = ("progress", "sklearn", "lightning", "accelerate", "transformers")
"""The extras that `make floor` runs: that of TRL asks for a newer transformers, the others are for developers."""


def numbers(version):
    """2.6 and 2.6.0 are one version."""
    parts = [int(part) for part in version.split(".")]
    return tuple(parts + [0] * (3 - len(parts)))


def bounds(*extras):
    """(lowest, lowest that is not allowed) by package; the second may be None."""
    asked = LIBRARY["dependencies"] + sum((LIBRARY["optional-dependencies"][extra] for extra in extras), [])
    found = [re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<([\d.]+))?", one) for one in asked if "gradorder[" not in one]
    assert all(found), asked
    return {one[1]: (numbers(one[2]), one[3] and numbers(one[3])) for one in found}


def pinned(file):
    found = re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / file).read_text(), flags=re.MULTILINE)
    return {name: numbers(version) for name, version in found}


def test_the_floor_that_is_run_is_the_one_that_is_promised():
    assert pinned("constraints-floor.txt") == {name: lowest for name, (lowest, _) in bounds(*BY_USERS).items()}


def test_the_pinned_versions_are_allowed():
    fixed = pinned("constraints.txt")
    for name, (lowest, beyond) in bounds(*BY_USERS, "trl").items():
        assert lowest <= fixed[name], name
        assert beyond is None or fixed[name] < beyond, name


def test_the_integrations_refuse_versions_below_the_promised_ones():
    refused = {
        call.args[0].value: numbers(call.args[1].value)
        for path in (ROOT / "src" / "gradorder" / "integrations").glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "check_version"
    }
    promised = bounds("lightning", "accelerate", "transformers") | {"trl": bounds("trl")["trl"]}
    assert refused.keys() >= {"lightning", "accelerate", "transformers", "trl"}
    for name, lowest in refused.items():
        assert lowest == promised[name][0], name

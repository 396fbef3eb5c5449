"""What is said about versions is the same wherever it is said."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIBRARY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BY_USERS = ("progress", "sklearn", "lightning", "accelerate", "transformers")
"""The extras that `make floor` runs: that of TRL asks for a newer transformers, the others are for developers."""


def lower_bounds(extras=BY_USERS):
    asked = LIBRARY["dependencies"] + sum((LIBRARY["optional-dependencies"][extra] for extra in extras), [])
    found = [re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<[\d.]+)?", one) for one in asked if not one.startswith("gradorder[")]
    assert all(found), asked
    return dict(one.groups() for one in found)


def upper_bounds():
    asked = sum((LIBRARY["optional-dependencies"][extra] for extra in (*BY_USERS, "trl")), [])
    return dict(re.findall(r"^([\w-]+)>=[\d.]+,<([\d.]+)$", "\n".join(asked), flags=re.MULTILINE))


def pinned(file):
    return dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / file).read_text(), flags=re.MULTILINE))


def is_same(version, other):
    """Whether they are one version: 2.6 is 2.6.0."""
    one, two = ([int(part) for part in text.split(".")] for text in (version, other))
    length = max(len(one), len(two))
    return one + [0] * (length - len(one)) == two + [0] * (length - len(two))


@pytest.mark.parametrize(
    ("version", "other", "expected"),
    [("2.6", "2.6.0", True), ("1.26", "1.26.4", False), ("1.9", "1.9.0", True), ("1.9", "1.90", False)],
)
def test_versions_are_compared_as_numbers(version, other, expected):
    assert is_same(version, other) == is_same(other, version) == expected


def test_the_floor_that_is_run_is_the_one_that_is_promised():
    floor = pinned("constraints-floor.txt")
    promised = lower_bounds()
    assert floor.keys() == promised.keys()
    assert [name for name in floor if not is_same(floor[name], promised[name])] == []


def test_the_pinned_versions_are_allowed():
    fixed = pinned("constraints.txt")
    for name, version in lower_bounds((*BY_USERS, "trl")).items():
        assert [int(part) for part in fixed[name].split(".")] >= [int(part) for part in version.split(".")], name


def test_every_framework_has_an_upper_bound_just_above_the_pinned_version():
    fixed, bounds = pinned("constraints.txt"), upper_bounds()
    assert bounds.keys() == {"lightning", "accelerate", "transformers", "trl"}
    for name, bound in bounds.items():
        major, minor = (int(part) for part in fixed[name].split(".")[:2])
        assert bound == f"{major}.{minor + 1}", name


def test_the_page_on_frameworks_and_the_plug_ins_know_the_same_floors():
    text = (ROOT / "docs" / "frameworks.md").read_text()
    names = {"Lightning, Fabric": "lightning", "Accelerate": "accelerate", "transformers": "transformers", "TRL": "trl"}
    promised = lower_bounds(("lightning", "accelerate", "transformers")) | {"trl": lower_bounds(("trl",))["trl"]}
    refused = {
        call.args[0].value: call.args[1].value
        for path in (ROOT / "src" / "gradorder" / "integrations").glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "check_version"
    }
    for shown, name in names.items():
        (passed,) = re.findall(rf"^\| {shown} \| ([\d.]+)", text, flags=re.MULTILINE)
        assert is_same(passed, promised[name]), name
        assert is_same(refused[name], promised[name]), name

"""The tables of the reference: those that scripts/reference.py writes, the versions, and a recorded run."""

import ast
import csv
import importlib.util
import re
import tomllib
import warnings
from pathlib import Path

import pytest
import torch

import gradorder as go
from gradorder.orderings import Ordering
from gradorder.selection import Selection

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture
def reference():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_pages_are_what_the_script_writes(reference):
    for path in reference.DOCUMENTS:
        assert reference.filled(path.read_text()) == path.read_text(), "run `make generated`"
        assert len(re.findall(r"^<!-- \w+ -->$", path.read_text(), flags=re.MULTILINE)) >= 4
    names = re.findall(r"^<!-- (\w+) -->$", "\n".join(map(Path.read_text, reference.DOCUMENTS)), flags=re.MULTILINE)
    assert set(names) == {*reference.TABLES, "end"}


@pytest.mark.parametrize(
    ("table", "is_of_kind"),
    [
        ("orderings", lambda each: issubclass(each, Ordering) and each is not Ordering),
        ("selections", lambda each: issubclass(each, Selection) and each is not Selection),
        ("scores", lambda each: each.__module__.startswith("gradorder.scores")),
    ],
)
def test_every_public_class_of_a_kind_has_a_row_and_nothing_else_has(reference, table, is_of_kind):
    expected = {name for name, each in vars(go).items() if isinstance(each, type) and is_of_kind(each)}
    assert len(expected) >= 4
    found = rows(reference.TABLES[table]())
    assert {re.match(r"\[(\w+)\]", row[0])[1] for row in found} == expected
    assert all(len(row) == 5 and all(row) for row in found)


def test_the_table_says_which_orderings_need_scores(reference):
    needs = {row[0].split("]")[0].strip("["): row[2] for row in rows(reference.orderings_table())}
    assert needs["Descending"] == "Scores."
    assert needs["Shuffled"] == "Nothing."
    assert "gradients" in needs["GradientBalancing"]


def test_every_message_has_a_remedy_and_every_remedy_a_message(reference):
    assert {each.place for each in reference.messages()} == set(reference.REMEDIES)
    assert reference.INTERNAL.isdisjoint(reference.REMEDIES)


def test_every_error_class_of_the_library_has_a_message(reference):
    public = {name for name, each in vars(go).items() if isinstance(each, type) and issubclass(each, Exception)}
    assert len(public) >= 5
    assert public <= {each.kind for each in reference.messages()}


def test_a_new_warning_is_found(reference):
    source = (
        'def fit(self):\n    if self.bad:\n        warnings.warn(f"the model of {self.name} is bad", stacklevel=2)\n'
    )
    (function,) = ast.parse(source).body
    assert list(reference._messages_of(function)) == [("warning", "the model of … is bad")]


def test_the_text_on_the_page_is_the_beginning_of_the_real_message():
    sampler = go.OrderedSampler(8, batch_size=4, ordering=go.Shuffled())
    sampler.set_epoch(0)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for _ in range(2):
            for _ in range(len(list(sampler)) // 4):
                sampler.step(torch.ones(4))
    (line,) = [row for row in (DOCS / "troubleshooting.md").read_text().splitlines() if "is trained on again" in row]
    beginning = line.strip("| ").split(" | ")[0].removesuffix(" …").replace("…", "0").replace("\\", "")
    assert str(given[0].message).startswith(beginning)


def test_the_versions_of_the_page_on_reliability_are_those_of_the_project():
    text = (DOCS / "reliability.md").read_text()
    lines = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| ([\d.]+) \|$", text, flags=re.MULTILINE)
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = ("sklearn", "lightning", "accelerate", "transformers")
    asked = project["dependencies"] + sum((project["optional-dependencies"][extra] for extra in extras), [])
    oldest = dict(re.match(r"([\w-]+)>=([\d.]+)", one).groups() for one in asked if not one.startswith("gradorder"))
    assert {name: (run, floor) for name, run, floor in lines if name != "Python"} == {
        name: (pinned[name], floor) for name, floor in oldest.items()
    }
    assert ("Python", "3.11", project["requires-python"].removeprefix(">=")) in lines


@pytest.mark.slow
def test_the_recorded_run_of_the_picture_is_what_the_script_records():
    spec = importlib.util.spec_from_file_location("shrinking", ROOT / "benchmarks" / "shrinking_epochs.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with script.RESULTS.open(newline="") as file:
        written = list(csv.DictReader(file))
    new = list(script.rows(seed=0))
    assert len(new) == len(written)
    for row, (epoch, share, visits) in zip(written, new, strict=True):
        assert (row["epoch"], len(row["visits"])) == (str(epoch), len(visits))
        assert float(row["visited_share"]) == pytest.approx(float(share), abs=0.02)  # rounding differs by machine
    columns = list(zip(*(row["visits"] for row in written), strict=True))
    assert all("ssss" not in "".join(column) for column in columns)  # each comes back within four epochs

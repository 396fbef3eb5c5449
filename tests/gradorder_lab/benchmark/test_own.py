"""An ordering of the user's own, in a file of the current directory."""

import sys

import pytest
import torch

import gradorder as go
from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.task import Task
from gradorder_lab.commands.compare import ComparisonRequest, planned
from gradorder_lab.errors import LabError
from gradorder_lab.methods import Circumstances, named
from gradorder_lab.training import own

RULE = """
from dataclasses import dataclass
from typing import ClassVar
import torch
import gradorder as go

@dataclass(frozen=True)
class Easiest(go.Ordering):
    needs_scores: ClassVar[bool] = True
    part: float = 1.0
    def order(self, request):
        return go.Order(request.kept(torch.argsort(request.scores, stable=True)))

half = Easiest(0.5)
number = 3

def with_arguments(needed):
    return Easiest(needed)
"""


SELECTION = """
import torch
import gradorder as go

class Half(go.Selection):
    num_calls = 0

    def choose(self, model, batch):
        self.num_calls += 1
        return torch.arange(len(batch[1]) // 2 - 1), None

select = Half()
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty directory to work in, with a module that no other test has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    name = f"own_rule_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(RULE)
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize(("attribute", "part"), [("Easiest", 1.0), ("half", 0.5)])
def test_a_class_or_an_instance_is_found_from_the_current_directory(here, attribute, part):
    name = own.marked(f"{here}:{attribute}", "--method")
    rule = own.rule(name)
    assert isinstance(rule, go.Ordering)
    assert rule.part == part
    strategy = named(name).build(Circumstances(torch.zeros(20, dtype=torch.int64), 5, 2, 1.0, seed=0))
    assert strategy.remembers
    strategy.sampler.set_epoch(1, scores=torch.arange(20.0))
    assert list(strategy.sampler) == list(range(20))


def test_a_changed_file_is_another_method(here, tmp_path):
    before = own.marked(f"{here}:Easiest", "--method")
    assert own.marked(f"{here}:Easiest", "--method") == before
    (tmp_path / f"{here}.py").write_text(RULE + "\n# another thought\n")
    assert own.marked(f"{here}:Easiest", "--method") != before


def test_a_changed_file_that_it_imports_is_another_method(here, tmp_path):
    (tmp_path / f"{here}.py").write_text(f"from {here}_helper import PART\n{RULE}")
    (tmp_path / f"{here}_helper.py").write_text("PART = 0.5\n")
    before = own.marked(f"{here}:Easiest", "--method")
    (tmp_path / f"{here}_helper.py").write_text("PART = 0.25\n")
    assert own.marked(f"{here}:Easiest", "--method") != before
    sys.modules.pop(f"{here}_helper", None)


def test_files_that_it_does_not_import_do_not_matter(here, tmp_path):
    before = own.marked(f"{here}:Easiest", "--method")
    (tmp_path / "another.py").write_text("PART = 0.5\n")
    assert own.marked(f"{here}:Easiest", "--method") == before


def test_it_is_planned_and_run_like_the_others(here):
    task = Task("t", "terrain", "2-layer", epochs=1, batch_size=5000, step_sizes=(0.05,))
    plan = planned(ComparisonRequest(task, (f"{here}:Easiest",), budgets=(1.0,)))
    assert plan.methods == ("random reshuffling", own.marked(f"{here}:Easiest", "--method"))
    rows = CompareRecipe.of(task, plan.methods[1], 0.05, 1.0).run(0)
    assert rows["trained"].tolist() == [60_000.0]


def test_a_selection_is_run_like_an_ordering_and_every_run_has_its_own(here, tmp_path):
    (tmp_path / f"{here}.py").write_text(SELECTION)
    sys.modules.pop(here, None)
    name = own.marked(f"{here}:select", "--method")
    task = Task("t", "terrain", "2-layer", epochs=1, batch_size=5000, step_sizes=(0.05,))
    first, again = (CompareRecipe.of(task, name, 0.05, 1.0).run(0) for _ in range(2))
    assert first["trained"].tolist() == again["trained"].tolist() == [30_000.0 - 12]
    assert first["forward"].tolist() == [90_000.0 - 12]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("Missing", "must name something that can be imported"),
        ("number", "must come from a file"),
        ("with_arguments", "must be an ordering or a selection, or be called without arguments"),
    ],
)
def test_what_is_no_ordering_is_refused_in_one_line(here, attribute, message):
    with pytest.raises(LabError, match=message):
        own.rule(own.marked(f"{here}:{attribute}", "--method"))


def test_a_module_that_is_not_there_is_refused():
    with pytest.raises(LabError, match="--method 'nowhere_at_all:Rule' must name something that can be imported"):
        own.marked("nowhere_at_all:Rule", "--method")

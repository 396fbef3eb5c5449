"""What docs/prompts.md says of the benchmark of prompts is what its rows say."""

import importlib.util
import math
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import svg

ROOT = Path(__file__).parents[3]


@cache
def benchmark():
    spec = importlib.util.spec_from_file_location("prompts_grpo", ROOT / "benchmarks" / "prompts_grpo.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["prompts_grpo"] = module  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module


def methods():
    """Those that were judged; a test below sees that none of their seeds is missing."""
    judged = {row.method for row in benchmark().read_runs() if row.purpose == "judged"}
    return [method for method in benchmark().METHODS if method in judged]


def test_a_curve_reaches_its_target_between_points():
    curve = benchmark().Curve(np.array([0.0, 10, 20, 30]), np.array([0.1, 0.2, 0.4, 0.3]))
    assert curve.first(0.3) == pytest.approx(15)
    assert curve.first(0.05) == 0
    assert curve.first(0.5) == math.inf
    assert curve.at(25) == pytest.approx(0.35)


def test_every_row_is_of_committed_code_and_all_seeds_are_there():
    module, rows = benchmark(), benchmark().read_runs()
    assert all(row.commit and "dirty" not in row.commit for row in rows)
    judged = [(row.method, row.seed) for row in rows if row.purpose == "judged"]
    assert sorted(judged) == sorted((method, seed) for method in methods() for seed in module.SEEDS)
    for row in rows:
        if row.purpose == "judged":
            assert row.learning_rate == module.tuned_rate(rows, row.method)


def test_the_page_says_what_the_rows_say():
    module, page = benchmark(), (ROOT / "docs" / "prompts.md").read_text()
    rows = module.read_runs()
    for method in methods():
        for part in ("training", "held_out"):
            found = module.compared(rows, method, part)
            line = f"| {method} | {part.replace('_', '-')} | {found.share_text} | {found.difference} |"
            assert method == "uniform" or line in page, line


def test_the_figure_is_drawn_from_the_rows(tmp_path):
    module = benchmark()
    module.write_figure(module.read_runs(), methods(), tmp_path / "prompts.svg")
    assert svg.is_same((tmp_path / "prompts.svg").read_text(), (ROOT / "docs" / "prompts.svg").read_text())

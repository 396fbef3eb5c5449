import ast
import re
from pathlib import Path

import pytest
from mktestdocs import check_md_file

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def test_every_code_block_of_the_readme_runs():
    assert len(re.findall(r"^```python$", README.read_text(), flags=re.MULTILINE)) >= 4
    check_md_file(README, memory=True)


def test_the_first_block_is_the_two_commands():
    first = re.search(r"```\w*\n(.*?)```", README.read_text(), flags=re.DOTALL)
    commands = [line.split("#")[0].strip() for line in first[1].strip().splitlines()]
    assert commands == ["make reproduce", "make test"]


@pytest.mark.parametrize("target", ["reproduce", "test", "check", "bench", "help"])
def test_the_makefile_has_the_targets(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def test_the_tables_of_costs_are_the_measured_ones():
    """What README says must be what `make bench` wrote."""
    text = README.read_text()
    sampler = [line.split(",") for line in (ROOT / "results" / "sampler.csv").read_text().splitlines()[1:]]
    for row in sampler:
        (line,) = re.findall(rf"^\| {int(row[0]):,} \|.*$", text, flags=re.MULTILINE)
        time_ratio, memory_ratio = (float(cell.split()[0]) for cell in line.split("|")[2:4])
        assert time_ratio == pytest.approx(float(row[3]), abs=0.005)
        assert memory_ratio == pytest.approx(float(row[7]), abs=0.05)


def test_nothing_in_the_project_unpickles_or_uses_global_random_numbers():
    banned = {"pickle", "cPickle", "dill", "joblib"}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names = [(node.module or "").split(".")[0]]
            assert not banned & set(names), path

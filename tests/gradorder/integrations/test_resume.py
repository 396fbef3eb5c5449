"""Every framework is killed (SIGKILL) within an epoch and resumed: the same examples and, despite dropout, weights.

The trainings are those of benchmarks/resume_matrix.py, whose matrix has more of them.
"""

import importlib.util
import sys
from pathlib import Path

import processes
import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
FRAMEWORKS = ["torch", "accelerate", "lightning", "fabric", "transformers"]
ORDERED = "gradorder, PlackettLuce(), keep=0.75"

processes.preload("lightning.pytorch", "gradorder.integrations.lightning", "gradorder.integrations.transformers")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the frameworks' own


def loaded(name):
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


def trained(framework, folder, workers, stop):
    trainings = loaded("resume_trainings")
    trainings.TRAININGS[framework, ORDERED](trainings.Run(folder, workers, stop))


def left_behind(framework, folder, workers, stop):
    folder.mkdir(exist_ok=True)
    with processes.Started(trained, framework, folder, workers, stop) as process:
        process.process.join(processes.DEADLINE)
        assert process.poll() == (0 if stop is None else -9)
    return loaded("resume_matrix").ended(folder, 1)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_killed_run_with_dropout_is_resumed_to_the_bit(tmp_path, framework):
    straight = left_behind(framework, tmp_path / "straight", 0, None)
    before = left_behind(framework, tmp_path / "killed", 0, 8)
    after = left_behind(framework, tmp_path / "killed", 0, None)
    assert len(before.batches) == 8
    assert len(straight.batches) == 16
    found = loaded("resume_matrix").outcome(straight, before, after, same_world=True)
    assert found == ("same", "same")


def test_the_tables_of_the_page_are_those_of_the_rows():
    matrix = loaded("resume_matrix")
    text = matrix.PAGE.read_text()
    begin, end = matrix.MARKS
    assert text.split(begin)[1].split(end)[0].strip() == matrix.tables(matrix.read_cells()).strip()


def test_every_row_with_gradorder_is_the_same_run():
    ordered = [cell for cell in loaded("resume_matrix").read_cells() if cell.setting.startswith("gradorder")]
    assert {cell.framework for cell in ordered} >= {*FRAMEWORKS}
    assert {cell.examples for cell in ordered} == {"same"}
    assert {cell.weights for cell in ordered} == {"same", "-"}

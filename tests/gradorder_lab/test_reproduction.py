import csv
import subprocess
import sys

import pytest
import torch
from PIL import Image

from gradorder_lab import cli, reproduction
from gradorder_lab.problems import synthetic
from gradorder_lab.recipes import side_by_side
from gradorder_lab.run import run


@pytest.fixture(autouse=True)
def _same_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_reproduce_leaves_a_table_a_plot_and_rows(tmp_path, capsys):
    reproduction.reproduce(tmp_path, num_seeds=1)
    printed = capsys.readouterr().out
    for recipe in side_by_side.recipes():
        assert recipe.method in printed
    assert "side_by_side.png" in printed
    with Image.open(tmp_path / "side_by_side.png") as image:
        assert image.size == (1650, 720)
    with (tmp_path / "side_by_side.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(recipe.epochs + 1 for recipe in side_by_side.recipes())


def recipe_of(method, task=side_by_side.DIGITS):
    (found,) = [r for r in side_by_side.recipes() if r.method.startswith(method) and r.task_name == task]
    return found


def test_methods_of_one_seed_share_data_and_start():
    for task in (side_by_side.SYNTHETIC, side_by_side.DIGITS):
        starts = {next(run(r, seed=3)).metric for r in side_by_side.recipes() if r.task_name == task}
        assert len(starts) == 1


def test_costs_are_counted():
    last = list(run(recipe_of("Algorithm 4"), seed=0))[-1]
    assert last.examples_trained == 20 * (40 * 16 + 9)  # the last batch has 17 examples: 9 are kept
    assert last.examples_scored == 20 * 1297
    last = list(run(recipe_of("Algorithm 3: from"), seed=0))[-1]
    assert (last.examples_trained, last.examples_scored) == (20 * 1297, 6 * 1297)
    last = list(run(recipe_of("Algorithm 2", side_by_side.SYNTHETIC), seed=0))[-1]
    assert (last.examples_trained, last.examples_scored) == (25 * 16, 25 * 32)


def test_runs_repeat_to_the_bit():
    for method in ("random", "Algorithm 3: sort"):
        first, again = ([row.metric for row in run(recipe_of(method), seed=1)] for _ in range(2))
        assert first == again
        assert first[-1] > 90


def test_algorithm_1_by_hand():
    """The synthetic run again in a few lines without the library."""
    task = synthetic.task(0)
    (points,) = task.train.tensors
    x, step = task.model.x.detach().clone(), 0
    for _ in range(25):
        differences = x - points
        norms = (4 * differences**3 + 2 * differences).norm(dim=1)
        for i in norms.argsort(descending=True, stable=True):
            difference = x - points[i]
            x = x - 1e-4 / (1 + step / 32) * (4 * difference**3 + 2 * difference)
            step += 1
    rows = list(run(recipe_of("Algorithm 1", side_by_side.SYNTHETIC), seed=0))
    assert rows[-1].metric == pytest.approx(task.metric(synthetic.Point(x)), rel=1e-9)
    assert rows[-1].metric < rows[0].metric / 100


def test_the_minimum_is_one():
    (points,) = synthetic.task(5).train.tensors
    smallest = synthetic.minimiser(points)
    value = synthetic.losses(synthetic.Point(smallest), (points,)).mean()
    for _ in range(50):
        other = smallest + 0.01 * torch.randn(2, dtype=torch.float64)
        assert synthetic.losses(synthetic.Point(other), (points,)).mean() > value


def test_the_command_line(tmp_path, monkeypatch):
    def gradorder(*arguments):
        command = [sys.executable, "-c", "from gradorder_lab.cli import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert "reproduce" in gradorder("--help").stdout
    (tmp_path / "file").write_text("")
    result = gradorder("reproduce", "--out", str(tmp_path / "file"))
    assert result.returncode == 1
    assert "--out must be a directory that can be written to" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert gradorder("reproduce", "--seeds", "0").returncode == 2
    called = []
    monkeypatch.setattr(reproduction, "reproduce", lambda out, seeds: called.append((out, seeds)))
    monkeypatch.setattr(sys, "argv", ["gradorder", "reproduce", "--out", str(tmp_path), "--seeds", "2"])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    assert exit_info.value.code == 0
    assert called == [(tmp_path, 2)]


def test_without_the_laboratory_the_command_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from gradorder_lab.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert 'pip install "gradorder[lab]"' in result.stderr

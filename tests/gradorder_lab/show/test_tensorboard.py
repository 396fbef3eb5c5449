import sys
from dataclasses import replace

import numpy as np
import pytest

from gradorder_lab.commands import reproduce
from gradorder_lab.errors import LabError
from gradorder_lab.paper import far
from gradorder_lab.runs.store import Store
from gradorder_lab.show.tensorboard import TensorBoardLog, steps

ROWS = {
    "epoch": np.array([0.0, 0.5, 1.0]),
    "updates": np.array([0.0, 16.0, 32.0]),
    "excess": np.array([3.0, 2.0, 1e-9]),
}


def scalars(directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415

    read = EventAccumulator(str(directory))
    read.Reload()
    return {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_every_column_is_a_scalar_at_its_step(tmp_path):
    recipe = far.far_recipe("far", "descending", "1/(1+t)")
    log = TensorBoardLog(tmp_path / "made" / "here")
    log.add(recipe, 3, ROWS)
    found = scalars(log.path_of(recipe, 3))
    assert set(found) == set(ROWS)
    assert [step for step, _ in found["excess"]] == [0, 16, 32]
    assert [value for _, value in found["excess"]] == pytest.approx([3, 2, 1e-9])


def test_steps_are_updates_or_whole_epochs_or_places():
    assert steps(ROWS) == [0, 16, 32]
    assert steps({"epoch": np.array([0.0, 2.0])}) == [0, 2]
    assert steps({"epoch": np.array([0.0, 0.5])}) == [0, 1]
    assert steps({"loss": np.array([4.0, 2.0])}) == [0, 1]


def test_a_run_is_written_once_and_whole(tmp_path, monkeypatch):
    recipe = far.far_recipe("far", "descending", "1/(1+t)")
    log = TensorBoardLog(tmp_path)
    with pytest.raises(IndexError):
        log.add(recipe, 0, ROWS | {"excess": np.array([1.0])})
    assert not log.path_of(recipe, 0).exists()
    log.add(recipe, 0, ROWS)
    files = sorted(path.name for path in log.path_of(recipe, 0).iterdir())
    log.add(recipe, 0, ROWS)
    assert sorted(path.name for path in log.path_of(recipe, 0).iterdir()) == files
    assert [path.name for path in log.path_of(recipe, 0).parent.iterdir()] == ["seed-0"]


def test_other_settings_are_another_directory_with_a_safe_name(tmp_path):
    log = TensorBoardLog(tmp_path)
    recipes = [
        far.far_recipe(problem, ordering, "1/(1+t)") for problem in far.READINGS for ordering in ("../../x", "random")
    ]
    recipes += [replace(recipes[0], epochs=7), replace(recipes[0], epochs=8)]  # names show words only
    paths = [log.path_of(recipe, 0) for recipe in recipes]
    assert len(set(paths)) == len(paths)
    for path in paths:
        assert path.resolve().is_relative_to(tmp_path)
        assert len(path.relative_to(tmp_path).parts) == 3


def test_reproduce_writes_what_it_runs_and_what_was_there(tmp_path):
    settings = reproduce.Reproduction(seeds=1)
    reproduce.reproduce(["synthetic-switch"], tmp_path / "out", settings)
    with_log = reproduce.Reproduction(seeds=2, tensorboard=tmp_path / "log")
    reproduce.reproduce(["synthetic-switch"], tmp_path / "out", with_log)
    with Store(tmp_path / "out") as store:
        assert len(list((tmp_path / "log").glob("*/*/seed-*"))) == store.num_runs()


def test_without_tensorboard_it_says_what_to_install_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(LabError, match=r'pip install "gradorder-lab\[tensorboard\]"'):
        reproduce.reproduce(["iris"], tmp_path / "out", reproduce.Reproduction(tensorboard=tmp_path / "log"))
    assert not (tmp_path / "out").exists()


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="--tensorboard must be a directory that can be written to, got"):
        TensorBoardLog(tmp_path / "file" / "below")

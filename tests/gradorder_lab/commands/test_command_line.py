import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from command import gradorder
from processes import DEADLINE, interpreter, until

from gradorder_lab import cli
from gradorder_lab.commands import reproduce
from gradorder_lab.paper import EXPERIMENTS
from gradorder_lab.runs.store import Store, only_one

MAIN = ["-c", "from gradorder_lab.cli import main; main()"]


def in_one_line(result):
    assert result.returncode == 1, result.stderr
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


def test_help_names_the_commands():
    text = gradorder("--help").stdout
    assert all(command in text for command in ("list", "reproduce", "report"))


def test_list_names_every_experiment_and_claim():
    text = gradorder("list").stdout
    for experiment in EXPERIMENTS.values():
        (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{experiment.name} ")]
        assert all(claim in line for claim in experiment.claims)


def test_reproduce_judges_the_claims_and_leaves_a_page(tmp_path):
    result = gradorder("reproduce", "synthetic-far", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    judged, _, others = result.stdout.partition("Not requested")
    assert "C4 " in judged
    assert "C5 " not in judged
    assert "gradorder reproduce synthetic iris" in others
    assert (tmp_path / "runs.parquet").exists()
    assert (tmp_path / "index.html").stat().st_size > 1000
    with Store(tmp_path) as store:
        assert store.num_runs() == 2 * len(EXPERIMENTS["synthetic-far"].recipes("mini"))


def test_bad_input_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    text = in_one_line(gradorder("reproduce", "--out", str(tmp_path / "file")))
    assert "--out" in text
    assert "--out" in in_one_line(gradorder("report", "--out", "/proc/out"))
    text = in_one_line(gradorder("reproduce", "irish", "--out", str(tmp_path)))
    assert "EXPERIMENT must be one of synthetic, iris" in text
    assert "got 'irish'" in text
    (tmp_path / "runs.sqlite").write_text("something else" * 1000)
    assert "runs.sqlite cannot be used" in in_one_line(gradorder("reproduce", "iris", "--out", str(tmp_path)))
    assert "runs.sqlite cannot be used" in in_one_line(gradorder("report", "--out", str(tmp_path)))


def test_wrong_usage_exits_with_2(tmp_path):
    for arguments in (["--seeds", "0"], ["--jobs", "0"], ["--size", "huge"], ["--colour", "red"]):
        assert gradorder("reproduce", *arguments, "--out", str(tmp_path)).returncode == 2


def test_a_directory_in_use_is_refused(tmp_path):
    with only_one(tmp_path):
        assert "another gradorder is running" in in_one_line(gradorder("reproduce", "--out", str(tmp_path)))


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_keep_what_is_finished_and_say_how_to_go_on(tmp_path, ending):
    command = [*MAIN, "reproduce", "selection", "--seeds", "50", "--jobs", "2", "--out", str(tmp_path)]
    with interpreter(*command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: (tmp_path / "runs.sqlite").exists() and num_runs(tmp_path) > 0, process, "a run to be kept")
        process.send_signal(ending)
        _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert f"of 25000 runs are finished and kept in {tmp_path}" in said
    assert f"gradorder reproduce selection --seeds 50 --jobs 2 --out {tmp_path}" in said
    assert "Traceback" not in said
    assert "Warning" not in said
    assert num_runs(tmp_path) >= int(said.split("Interrupted: ")[1].split()[0]) > 0


def num_runs(directory):
    with Store(directory) as store:
        return store.num_runs()


def test_options_reach_the_work(tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(reproduce, "reproduce", lambda *given, **named: called.append((given, named)))
    arguments = ["reproduce", "iris", "boston", "--size", "cpu", "--jobs", "3", "--cluster", "tcp://here:1"]
    arguments += ["--data", "some", "--device", "cuda", "--threads", "4"]
    monkeypatch.setattr(sys, "argv", ["gradorder", *arguments, "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    assert exit_info.value.code == 0
    settings = reproduce.Reproduction("cpu", None, 3, "tcp://here:1", Path("some"), "cuda", 4)
    assert called == [((["iris", "boston"], tmp_path, settings), {})]


def test_it_says_its_version():
    result = gradorder("--version")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == metadata.version("gradorder-lab")

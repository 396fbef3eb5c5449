import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from gradorder_lab import paper
from gradorder_lab.errors import LabError
from gradorder_lab.runs import sweep
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.runs.store import Store

NUM_SEEDS = 3
CHOSEN = ("synthetic-switch", "synthetic-far")


def asked():
    return paper.chosen(CHOSEN)


def run_into(directory, *, jobs=1, cluster=None):
    seen = []
    with Store(directory) as store:
        wanted = [(recipe, NUM_SEEDS) for experiment in asked() for recipe in experiment.recipes("mini")]
        pieces = sweep.missing(wanted, store, Workspace())
        sweep.run_all(pieces, store, jobs=jobs, cluster=cluster, on_finished=seen.append)
    return seen


def rows_in(directory):
    with Store(directory) as store:
        return {
            (recipe, seed): {name: values.tobytes() for name, values in rows.items()}
            for experiment in asked()
            for recipe in experiment.recipes("mini")
            for seed, rows in store.rows(recipe).items()
        }


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Everything in this process, one after the other."""
    directory = tmp_path_factory.mktemp("straight")
    seen = run_into(directory)
    rows = rows_in(directory)
    assert len(seen) == len(rows) == NUM_SEEDS * sum(len(experiment.recipes("mini")) for experiment in asked())
    return rows


def test_a_second_time_there_is_nothing_to_do(tmp_path, straight):
    run_into(tmp_path)
    assert run_into(tmp_path) == []
    assert rows_in(tmp_path) == straight


def test_more_processes_give_the_same_rows(tmp_path, straight):
    run_into(tmp_path, jobs=2)
    assert rows_in(tmp_path) == straight


def test_a_cluster_gives_the_same_rows(tmp_path, straight):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, processes=True
    ) as cluster:
        seen = run_into(tmp_path, cluster=cluster.scheduler_address)
    assert len(seen) == len(straight)
    assert rows_in(tmp_path) == straight


def test_an_address_without_a_scheduler_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "_CONNECT_SECONDS", 1)
    with pytest.raises(
        LabError, match=r"--cluster must be the address of a Dask scheduler, got 'tcp://127\.0\.0\.1:1'"
    ):
        run_into(tmp_path, cluster="tcp://127.0.0.1:1")


def test_killed_at_random_moments_it_goes_on_to_the_same_rows(tmp_path, straight):
    command = [sys.executable, "-c", "from gradorder_lab.cli import main; main()", "reproduce", *CHOSEN]
    command += ["--seeds", str(NUM_SEEDS), "--jobs", "2", "--out", str(tmp_path)]
    moments = random.Random(0)
    counts = [0]
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
            _wait_for_more(tmp_path, counts[-1])
            time.sleep(moments.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
        rows = rows_in(tmp_path)
        assert rows.items() <= straight.items()
        counts.append(len(rows))
    assert counts == sorted(counts)
    assert counts[1] > 0
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert rows_in(tmp_path) == straight


def _wait_for_more(directory, count):
    """Until the process has kept at least one more run, or had the time for everything."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if (directory / "runs.sqlite").exists():
            with Store(directory) as store:
                if store.num_runs() > count:
                    return
        time.sleep(0.05)


def test_workers_leave_when_the_main_process_is_killed(tmp_path):
    command = [sys.executable, "-c", "from gradorder_lab.cli import main; main()", "reproduce", "selection"]
    command += ["--seeds", "50", "--jobs", "2", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        _wait_for_more(tmp_path, 0)
        assert len(processes_of_session(process.pid)) > 1
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while processes_of_session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of_session(process.pid) == []


def processes_of_session(session):
    """The running processes of a session; what is dead and waits to be noticed does not count."""
    text = subprocess.run(
        [shutil.which("ps"), "-eo", "sid=,pid=,stat="], capture_output=True, text=True, check=True
    ).stdout
    lines = [line.split() for line in text.splitlines()]
    return [pid for sid, pid, state in lines if int(sid) == session and not state.startswith("Z")]

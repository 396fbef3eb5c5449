import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from multiprocessing import forkserver

import pytest
from command import gradorder
from processes import Started, until

from gradorder_lab import paper
from gradorder_lab.errors import LabError
from gradorder_lab.runs import sweep
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.runs.store import Store

NUM_SEEDS = 3
SHORT = "synthetic-far"


@cache
def asked():
    """All of the shortest experiment, and some recipes of another."""
    short, other = paper.chosen((SHORT, "synthetic-switch"))
    return [*short.recipes("mini"), *other.recipes("mini")[::8]]


def run_into(directory, *, jobs=1, cluster=None):
    seen = []
    with Store(directory) as store:
        pieces = sweep.missing([(recipe, NUM_SEEDS) for recipe in asked()], store, Workspace())
        sweep.run_all(pieces, store, jobs=jobs, cluster=cluster, on_finished=seen.append)
    return seen


def rows_in(directory):
    with Store(directory) as store:
        return {
            (recipe, seed): {name: values.tobytes() for name, values in rows.items()}
            for recipe in asked()
            for seed, rows in store.rows(recipe).items()
        }


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Everything in this process, one after the other."""
    directory = tmp_path_factory.mktemp("straight")
    seen = run_into(directory)
    rows = rows_in(directory)
    assert len(seen) == len(rows) == NUM_SEEDS * len(asked())
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
    dask = pytest.importorskip("dask")
    forkserver.ensure_running()  # ours, before Dask says what is to be loaded
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, processes=True
        ) as cluster,
    ):
        seen = run_into(tmp_path, cluster=cluster.scheduler_address)
    assert len(seen) == len(straight)
    assert rows_in(tmp_path) == straight


def test_an_address_without_a_scheduler_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "_CONNECT_SECONDS", 1)
    with pytest.raises(
        LabError, match=r"--cluster must be the address of a Dask scheduler, got 'tcp://127\.0\.0\.1:1'"
    ):
        run_into(tmp_path, cluster="tcp://127.0.0.1:1")


def test_killed_it_goes_on_to_the_same_rows(tmp_path, straight):
    expected = {run: rows for run, rows in straight.items() if run[0].experiment == SHORT}
    command = ("reproduce", SHORT, "--seeds", str(NUM_SEEDS), "--out", str(tmp_path))
    counts = [0]
    for num_more in (1, 5):
        with Started(command_line, *command, "--jobs", "2") as started:
            until(lambda: num_kept(tmp_path) >= counts[-1] + num_more, started, "more runs to be kept")  # noqa: B023
        rows = rows_in(tmp_path)
        assert rows.items() <= expected.items()
        counts.append(len(rows))
    assert counts == sorted(counts)
    assert counts[1] > 0
    result = gradorder(*command, "--jobs", "1")
    assert result.returncode == 0, result.stderr
    assert rows_in(tmp_path) == expected


def command_line(*arguments):
    """The command `gradorder`, in a process that may be killed."""
    from gradorder_lab.cli import main  # noqa: PLC0415 - only where it is run

    sys.argv = ["gradorder", *arguments]
    main()


def num_kept(directory):
    """How many runs have been kept."""
    if not (directory / "runs.sqlite").exists():
        return 0
    with Store(directory) as store:
        return store.num_runs()


@pytest.mark.parametrize("is_at_work", [False, True], ids=["while they load", "at work"])
def test_workers_leave_when_the_main_process_is_killed(tmp_path, is_at_work):
    workers = []
    try:
        with Started(command_line, "reproduce", "selection", "--seeds", "50", "--jobs", "2", "--out", tmp_path) as main:
            until(lambda: len(workers_of(main.process.pid)) == 2, main, "two workers")
            workers += [pid for pid, parent, *_ in table() if parent == main.process.pid]  # and who tracks resources
            if is_at_work:
                until(lambda: num_kept(tmp_path) > 0, main, "a run to be kept")
            assert main.poll() is None
        until_all_are_gone(workers)
    finally:
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def until_all_are_gone(pids, seconds=60):
    """Long enough for a worker to have loaded torch on a busy machine; those that stay would stay for minutes."""
    deadline = time.monotonic() + seconds
    while running := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < deadline, f"still there {seconds} seconds after their parent was killed: {running}"
        time.sleep(0.2)


def workers_of(main):
    """The processes that it has started to work for it."""
    return [pid for pid, parent, _, command in table() if parent == main and "popen_loky" in command]


def is_running(process):
    """Not so if it is dead and waits to be noticed."""
    return any(pid == process and not state.startswith("Z") for pid, _, state, _ in table())


def table():
    """Number, parent, state and command of every process."""
    text = subprocess.run(
        [shutil.which("ps"), "-wweo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    lines = [line.split(maxsplit=3) for line in text.splitlines()]
    return [(int(pid), int(parent), state, command) for pid, parent, state, command in lines]

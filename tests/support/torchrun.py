"""torchrun, its processes forked from one that has loaded torch: each would take seconds to load it anew."""

import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from processes import CONTEXT, forked


def torchrun(program, *arguments, num=2, max_restarts=0, timeout=300):
    """What torchrun and the program's processes said, all together, and the code that it ended with.

    It has a server of its own for what it forks, which is forked too.
    """
    with tempfile.TemporaryDirectory() as logs:
        given = [
            "--standalone",
            f"--nproc-per-node={num}",
            f"--max-restarts={max_restarts}",
            "--monitor-interval=0.2",
            "--run-path",
            "--start-method=forkserver",
            "--redirects=3",
            f"--log-dir={logs}",
            str(program),
            *(str(each) for each in arguments),
        ]
        process = CONTEXT.Process(target=_agent, args=(given, Path(logs)))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(given, timeout)
        said = ("".join(path.read_text() for path in sorted(Path(logs).rglob(f"{name}.log"))) for name in STREAMS)
        return subprocess.CompletedProcess(given, process.exitcode, *said)


STREAMS = ("stdout", "stderr")


def _agent(given, logs):
    forked()
    for name in STREAMS:
        os.dup2(os.open(logs / f"{name}.log", os.O_WRONLY | os.O_CREAT), getattr(sys, name).fileno())
    # Without the last of these torchrun may hand the addresses of dead processes to their successors.
    os.environ |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    CONTEXT.set_forkserver_preload([])
    multiprocessing.resource_tracker.ensure_running()
    with mock.patch("multiprocessing.util.spawnv_passfds", _forked_server):
        multiprocessing.forkserver.ensure_running()
    from torch.distributed.run import main  # noqa: PLC0415 - only where it is run

    main(given)


def _forked_server(_, command, passed):
    """In place of a new interpreter that runs the command, which would load torch: the same in a fork of this process.

    While torchrun has no threads yet. As in a new interpreter only what is passed on stays open: the server ends when
    nobody holds the other end any more.
    """
    pid = os.fork()
    if pid == 0:
        kept = [0, 1, 2, *sorted(passed)]
        for before, after in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(before + 1, after)
        try:
            exec(command[-1], {})  # noqa: S102 - what multiprocessing itself would have run
        finally:
            os._exit(1)
    return pid

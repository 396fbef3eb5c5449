"""torchrun, its processes forked from one that has loaded torch: each would take seconds to load it anew."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import CONTEXT


def torchrun(program, *arguments, num=2, max_restarts=0, timeout=300, preload=("torch._dynamo", "gradorder")):
    """What torchrun and the program's processes said, all together, and the code that it ended with.

    It starts a server of its own for what it forks, which loads what the program needs.
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
        process = CONTEXT.Process(target=_agent, args=(given, list(preload), Path(logs)))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(given, timeout)
        said = ("".join(path.read_text() for path in sorted(Path(logs).rglob(f"{name}.log"))) for name in STREAMS)
        return subprocess.CompletedProcess(given, process.exitcode, *said)


STREAMS = ("stdout", "stderr")


def _agent(given, preload, logs):
    for name in STREAMS:
        os.dup2(os.open(logs / f"{name}.log", os.O_WRONLY | os.O_CREAT), getattr(sys, name).fileno())
    CONTEXT.set_forkserver_preload(preload)
    # Without the last of these torchrun may hand the addresses of dead processes to their successors.
    os.environ |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    from torch.distributed.run import main  # noqa: PLC0415 - only where it is run

    main(given)

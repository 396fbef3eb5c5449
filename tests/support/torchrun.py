"""torchrun as a user starts it: a new interpreter for it, and one for each of its processes."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # else a restarted process may get the address of a dead one
}


def torchrun(program, *arguments, num=2, max_restarts=0, timeout=300):
    """The exit code of torchrun, and everything that its processes printed."""
    with tempfile.TemporaryDirectory() as logs:
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num}"),
            *(f"--max-restarts={max_restarts}", "--monitor-interval=0.2", "--redirects=3", f"--log-dir={logs}"),
            *(str(each) for each in (program, *arguments)),
        ]
        run = subprocess.run(
            command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=timeout, check=False
        )
        printed = ("".join(path.read_text() for path in Path(logs).rglob(f"{name}.log")) for name in STREAMS)
        return subprocess.CompletedProcess(command, run.returncode, next(printed), run.stderr + next(printed))


STREAMS = ("stdout", "stderr")

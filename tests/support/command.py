"""The command `gradorder` in a process of its own: forked from one that has loaded torch, which takes seconds."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import CONTEXT


def gradorder(*arguments, timeout=300):
    """What it said, and the code that it ended with."""
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder, name) for name in ("stdout", "stderr")]
        process = CONTEXT.Process(target=_main, args=(arguments, *said))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, timeout)
        return subprocess.CompletedProcess(arguments, process.exitcode, *(path.read_text() for path in said))


def _main(arguments, stdout, stderr):
    for path, stream in ((stdout, sys.stdout), (stderr, sys.stderr)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream.fileno())
    sys.argv = ["gradorder", *arguments]
    from gradorder_lab.cli import main  # noqa: PLC0415 - only where it is run

    main()

"""The command `gradorder` in a process of its own: forked from one that has loaded torch, which takes seconds."""

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from processes import CONTEXT


def gradorder(*arguments, timeout=300):
    """What it said, and the code that it ended with."""
    with tempfile.TemporaryDirectory() as folder:
        with started(Path(folder), *arguments) as process:
            process.join(timeout)
        said = (Path(folder, name).read_text() for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(arguments, process.exitcode, *said)


@contextmanager
def started(folder, *arguments):
    """The process, in a session of its own, killed in the end; the folder's stdout and stderr have what it says."""
    said = [folder / "stdout", folder / "stderr"]
    for path in said:
        path.touch()
    process = CONTEXT.Process(target=_main, args=(arguments, *said))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _main(arguments, stdout, stderr):
    os.setsid()
    for path, stream in ((stdout, sys.stdout), (stderr, sys.stderr)):
        os.dup2(os.open(path, os.O_WRONLY), stream.fileno())
    sys.argv = ["gradorder", *arguments]
    from gradorder_lab.cli import main  # noqa: PLC0415 - only where it is run

    main()

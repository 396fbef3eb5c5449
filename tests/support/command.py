"""A command in a process of its own: forked from one that has loaded torch, which takes seconds."""

import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import CONTEXT, forked, preload

preload("gradorder_lab.cli", "gradorder_lab.show", "sklearn.datasets")  # what the command loads when it needs it


def gradorder(*arguments, timeout=300):
    """What `gradorder` said, and the code that it ended with."""
    return _run(_gradorder, arguments, timeout)


def module(name, *arguments, folder, timeout=300):
    """The same of `python -m NAME`, run in a folder."""
    return _run(_module, (name, folder, *(str(each) for each in arguments)), timeout)


def _run(function, arguments, timeout):
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder, name) for name in ("stdout", "stderr")]
        process = CONTEXT.Process(target=_main, args=(function, arguments, *said))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, timeout)
        return subprocess.CompletedProcess(arguments, process.exitcode, *(path.read_text() for path in said))


def _main(function, arguments, stdout, stderr):
    forked()
    for path, stream in ((stdout, sys.stdout), (stderr, sys.stderr)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream.fileno())
    function(*arguments)


def _gradorder(*arguments):
    sys.argv = ["gradorder", *arguments]
    from gradorder_lab.cli import main  # noqa: PLC0415 - only where it is run

    main()


def _module(name, folder, *arguments):
    os.chdir(folder)
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)

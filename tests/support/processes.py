"""Functions run by real processes: several that form a gloo process group, or one that may be killed.

They are forked from one that has loaded torch, which takes seconds.
"""

import gc
import importlib.util
import io
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = [
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.utils.data",
    "gradorder",
    "gradorder_lab.commands.reproduce",
    "hypothesis",
    "pytest",
]
DEADLINE = 120
"""Seconds for what takes a few: enough on the busiest of machines, and less than the time that a test has."""


def preload(*modules):
    """Have these loaded once, and then forked too: for a file whose functions need a framework that takes seconds.

    It is said when the file is collected, before anything is forked. What is not installed is left out.
    """
    _PRELOADED.extend(modules)
    CONTEXT.set_forkserver_preload(_PRELOADED)


preload()

KEPT = []
"""The process's group, to its end: with torch 2.6 one that is taken apart just after a collective may wait for ever.
It holds the interpreter's lock then, and gloo's thread needs that lock to let go of the last tensor."""


def run(function, num_ranks, *arguments, timeout=60):
    """What the function returned on each rank; an error or a hang on any of them fails.

    The function is found again in its file, so that tests can keep it next to what they assert.
    """
    file, name = function.__code__.co_filename, function.__name__
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(num_ranks):
            receiver, sender = CONTEXT.Pipe(duplex=False)
            told = (sender, file, name, _packed(arguments), rank, num_ranks, f"{folder}/meeting", timeout)
            processes.append(CONTEXT.Process(target=_work, args=told, daemon=False))
            pipes.append(receiver)
            processes[-1].start()
            sender.close()
        try:
            return _results(pipes, time.monotonic() + timeout, name)
        finally:
            for process in processes:
                process.join(5)
                if process.is_alive():
                    process.kill()
                    process.join()


class Started:
    """`with Started(function, ...) as process`: a process of its own, and what it prints, line by line."""

    def __init__(self, function, *arguments):
        receiver, sender = CONTEXT.Pipe(duplex=False)
        told = (sender, function.__code__.co_filename, function.__name__, arguments)
        self.process = CONTEXT.Process(target=_alone, args=told, daemon=False)
        self.process.start()
        sender.close()
        self.stdout = os.fdopen(os.dup(receiver.fileno()))

    def __enter__(self):
        return self

    def poll(self):
        """The code that it ended with, or None while it runs."""
        return self.process.exitcode

    def __exit__(self, *raised):
        """Ends it, unless it has come to its end."""
        self.process.kill()
        self.process.join()
        self.stdout.close()


@contextmanager
def interpreter(*arguments, **settings):
    """A new interpreter in a session of its own: both end with the block, however that ends."""
    with subprocess.Popen([sys.executable, *arguments], start_new_session=True, **settings) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # if nobody is left
                os.killpg(process.pid, signal.SIGKILL)


def until(is_true, process, what, seconds=DEADLINE):
    """Wait until it is true, or the process has ended."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and not is_true():
        assert time.monotonic() < deadline, f"waited {seconds} seconds for {what}"
        time.sleep(0.05)


def next_line(stream, what, seconds=DEADLINE):
    """What a process says next: nothing of it has been read yet."""
    ready, _, _ = select.select([stream], [], [], seconds)
    assert ready, f"waited {seconds} seconds for {what}"
    return stream.readline()


def forked():
    """What every process says first that was forked from the one that has loaded torch.

    What was loaded is never garbage: looking through it takes a quarter of a second each time, and some frameworks ask
    for that after every training. The processes that it starts itself, the workers of a DataLoader among them, are
    forked from it, as they are from a script on Linux: else it would start a server, which would load torch again.
    """
    gc.freeze()
    multiprocessing.set_start_method("fork", force=True)


def _alone(sender, file, name, arguments):
    forked()
    os.dup2(sender.fileno(), sys.stdout.fileno())
    torch.set_num_threads(1)
    getattr(_loaded(file), name)(*arguments)
    sys.stdout.flush()


def _results(pipes, deadline, name):
    results, failures = [], []
    for rank, pipe in enumerate(pipes):
        if not pipe.poll(max(0, deadline - time.monotonic())):
            failures.append(f"rank {rank} did not finish")
            continue
        try:
            is_good, result = _unpacked(pipe.recv_bytes())
        except EOFError:
            is_good, result = False, "died"
        results.append(result)
        if not is_good:
            failures.append(f"rank {rank}:\n{result}")
    if failures:
        raise AssertionError(f"{name} failed\n" + "\n".join(failures))
    return results


def _work(sender, file, name, arguments, rank, num_ranks, meeting, timeout):
    forked()
    os.environ.update(_as_torchrun(rank, num_ranks))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{meeting}",
            rank=rank,
            world_size=num_ranks,
            timeout=timedelta(seconds=timeout / 2),
        )
        KEPT.append(dist.group.WORLD)
        result = getattr(_loaded(file), name)(*_unpacked(arguments))
        if dist.is_initialized():
            dist.destroy_process_group()
        sender.send_bytes(_packed((True, result)))
    except BaseException:  # noqa: BLE001 - told to the test
        sender.send_bytes(_packed((False, traceback.format_exc())))


def _as_torchrun(rank, num_ranks):
    """What torchrun tells its processes, for frameworks that look there."""
    return {
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1",  # never asked: the processes meet in a file
        "TORCHELASTIC_RUN_ID": "test",
        "GROUP_RANK": "0",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(num_ranks),
        "LOCAL_WORLD_SIZE": str(num_ranks),
    }


def _packed(value):
    """Not through the pipe as it is: tensors would be shared with a process that ends."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _unpacked(data):
    return torch.load(io.BytesIO(data), weights_only=False)


def _loaded(file):
    name = f"ranks_of_{Path(file).stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module

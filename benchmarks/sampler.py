"""What an ordered, stratified epoch costs, next to torch's RandomSampler inside a BatchSampler.

Time: setting up the sampler, planning the epoch and iterating over all of its batches, both samplers in turn in
one process, on one thread and in processor time; the fastest round of each counts, as other work on the machine only
adds. The same for one `step(losses)` with the losses of a batch, on average over an epoch. Memory: the peak above what
the process held before, each sampler in a process of its own; scores and labels exist before, as they do in a training
run.

    python benchmarks/sampler.py            # writes results/sampler.csv
"""

import csv
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import torch
from torch.utils.data import BatchSampler, RandomSampler

import gradorder as go

BATCH_SIZE = 128
NUM_CLASSES = 10
ROUNDS = {10**4: 2000, 10**5: 100, 10**6: 15, 10**7: 5}
STEP_ROUNDS = 20
RESULTS = Path(__file__).resolve().parent.parent / "results" / "sampler.csv"
THREADS = 1


def inputs(num_examples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and labels."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(num_examples, generator=generator)
    return scores, torch.randint(NUM_CLASSES, (num_examples,), generator=generator)


def random_epoch(scores: torch.Tensor, labels: torch.Tensor) -> Iterable[list[int]]:
    """What torch does for shuffle=True."""
    del labels
    return BatchSampler(RandomSampler(range(len(scores))), BATCH_SIZE, drop_last=False)


def ordered_epoch(scores: torch.Tensor, labels: torch.Tensor) -> Iterable[list[int]]:
    """Sorted by score, stratified."""
    sampler = go.OrderedSampler(len(scores), BATCH_SIZE, ordering=go.Descending(), labels=labels)
    sampler.set_epoch(0, scores=scores)
    return BatchSampler(sampler, sampler.loader_batch_size, drop_last=False)


EPOCHS: dict[str, Callable[[torch.Tensor, torch.Tensor], Iterable[list[int]]]] = {
    "random": random_epoch,
    "ordered": ordered_epoch,
}


def consume(name: str, scores: torch.Tensor, labels: torch.Tensor) -> float:
    """Seconds for one epoch from nothing to the last batch."""
    started = time.process_time()
    for _ in EPOCHS[name](scores, labels):
        pass
    return time.process_time() - started


def seconds(num_examples: int) -> dict[str, float]:
    """The fewest seconds of both, in turn."""
    scores, labels = inputs(num_examples)
    taken = [{name: consume(name, scores, labels) for name in EPOCHS} for _ in range(ROUNDS[num_examples])]
    return {name: min(each[name] for each in taken) for name in EPOCHS}


def step_seconds(num_examples: int) -> float:
    """The fewest seconds of a `step(losses)`, on average over the steps of a round but the first, which sets up."""
    losses = torch.rand(BATCH_SIZE, generator=torch.Generator().manual_seed(0))
    num_steps = min(1000, num_examples // BATCH_SIZE)
    taken = []
    for _ in range(STEP_ROUNDS):
        sampler = go.OrderedSampler(num_examples, BATCH_SIZE, ordering=go.Descending(), start_epoch=1)
        list(islice(sampler, num_steps * BATCH_SIZE))  # as if a loader had fetched them all ahead
        sampler.step(losses)
        started = time.process_time()
        for _ in range(num_steps - 1):
            sampler.step(losses)
        taken.append((time.process_time() - started) / (num_steps - 1))
    return min(taken)


def peak_mebibytes(name: str, num_examples: int) -> float:
    """The peak memory of one epoch, in a process of its own."""
    command = [sys.executable, __file__, "--peak", name, str(num_examples)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603 - ourselves


def print_peak(name: str, num_examples: int) -> None:
    """The child process's part."""
    scores, labels = inputs(num_examples)
    consume(name, *inputs(BATCH_SIZE))  # what is loaded on first use does not count
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = status_kibibytes("VmRSS")
    consume(name, scores, labels)
    print((status_kibibytes("VmHWM") - before) / 1024)


def status_kibibytes(field: str) -> int:
    """A line of Linux's account of this process; `getrusage` would count its parent's peak too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])


def machine() -> str:
    """The kind of processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{platform.system()} {platform.machine()}" + (f", {names[0]}" if names else "")


def main() -> None:
    """Measure, print and save."""
    torch.set_num_threads(THREADS)
    print(f"one epoch, batches of {BATCH_SIZE}, {NUM_CLASSES} classes, {THREADS} thread, {machine()}\n")
    print(f"{'examples':>12} {'random s':>10} {'ordered s':>10} {'ratio':>6} {'ns/example':>11} {'us/step':>8} "
          f"{'random MiB':>11} {'ordered MiB':>12} {'ratio':>6}")  # fmt: skip
    rows = []
    for size in ROUNDS:
        taken = seconds(size)
        peak = {name: peak_mebibytes(name, size) for name in EPOCHS}
        row = {
            "examples": size,
            "random_seconds": round(taken["random"], 5),
            "ordered_seconds": round(taken["ordered"], 5),
            "time_ratio": round(taken["ordered"] / taken["random"], 2),
            "ordered_ns_per_example": round(taken["ordered"] / size * 1e9),
            "step_microseconds": round(step_seconds(size) * 1e6, 1),
            "random_mebibytes": round(peak["random"], 1),
            "ordered_mebibytes": round(peak["ordered"], 1),
            "memory_ratio": round(peak["ordered"] / peak["random"], 2) if peak["random"] else "",
        }
        for value, width in zip(row.values(), (12, 10, 10, 6, 11, 8, 11, 12, 6), strict=True):
            print(f"{value:>{width}}", end=" ")
        print(flush=True)
        rows.append({**row, "threads": THREADS, "machine": machine(), "torch": torch.__version__})
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(f"\nwritten to {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")


if __name__ == "__main__":
    if "--peak" in sys.argv:
        print_peak(sys.argv[-2], int(sys.argv[-1]))
    else:
        main()

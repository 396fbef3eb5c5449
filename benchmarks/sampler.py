"""What an ordered, class-balanced epoch costs, next to torch's RandomSampler inside a BatchSampler.

Time: setting up the sampler, planning the epoch and iterating over all of its batches, both samplers in turn in
one process, the median of several rounds. Memory: the peak above what the process held before, each sampler in
a process of its own; scores and labels exist before, as they do in a training run.

    python benchmarks/sampler.py            # writes results/sampler.csv
"""

import csv
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import torch
from torch.utils.data import BatchSampler, RandomSampler

import gradorder as go

BATCH_SIZE = 128
NUM_CLASSES = 10
SIZES = [10**4, 10**5, 10**6, 10**7]
RESULTS = Path(__file__).resolve().parent.parent / "results" / "sampler.csv"
THREADS = 2


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
    """Sorted by score, class-balanced."""
    sampler = go.OrderedSampler(len(scores), BATCH_SIZE, ordering=go.Descending(), labels=labels)
    sampler.set_epoch(0, scores=scores)
    return BatchSampler(sampler, sampler.loader_batch_size, drop_last=False)


EPOCHS: dict[str, Callable[[torch.Tensor, torch.Tensor], Iterable[list[int]]]] = {
    "random": random_epoch,
    "ordered": ordered_epoch,
}


def consume(name: str, scores: torch.Tensor, labels: torch.Tensor) -> float:
    """Seconds for one epoch from nothing to the last batch."""
    started = time.perf_counter()
    for _ in EPOCHS[name](scores, labels):
        pass
    return time.perf_counter() - started


def seconds(num_examples: int) -> dict[str, float]:
    """The median seconds of both, in turn."""
    scores, labels = inputs(num_examples)
    rounds = 5 if num_examples >= SIZES[-1] else 15
    consume("ordered", scores, labels)  # once to warm up
    taken = [{name: consume(name, scores, labels) for name in EPOCHS} for _ in range(rounds)]
    return {name: median(each[name] for each in taken) for name in EPOCHS}


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


def main() -> None:
    """Measure, print and save."""
    torch.set_num_threads(THREADS)
    print(f"one epoch, batches of {BATCH_SIZE}, {NUM_CLASSES} classes, {THREADS} threads\n")
    print(f"{'examples':>12} {'random s':>10} {'ordered s':>10} {'ratio':>6} {'ns/example':>11} "
          f"{'random MiB':>11} {'ordered MiB':>12} {'ratio':>6}")  # fmt: skip
    rows = []
    for size in SIZES:
        taken = seconds(size)
        peak = {name: peak_mebibytes(name, size) for name in EPOCHS}
        row = {
            "examples": size,
            "random_seconds": round(taken["random"], 5),
            "ordered_seconds": round(taken["ordered"], 5),
            "time_ratio": round(taken["ordered"] / taken["random"], 2),
            "ordered_ns_per_example": round(taken["ordered"] / size * 1e9),
            "random_mebibytes": round(peak["random"], 1),
            "ordered_mebibytes": round(peak["ordered"], 1),
            "memory_ratio": round(peak["ordered"] / peak["random"], 2) if peak["random"] else "",
        }
        rows.append(row)
        for value, width in zip(row.values(), (12, 10, 10, 6, 11, 11, 12, 6), strict=True):
            print(f"{value:>{width}}", end=" ")
        print(flush=True)
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

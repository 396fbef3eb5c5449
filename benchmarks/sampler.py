"""What an ordered, stratified epoch costs, next to torch's RandomSampler inside a BatchSampler.

Time: setting up the sampler, planning the epoch and iterating over all of its batches, both samplers in turn in
one process, on one thread and in processor time; the fastest round of each counts, as other work on the machine only
adds. The same for one `step(losses)` with the losses of a batch, on average over an epoch. Memory: the peak above what
the process held before, each sampler in a process of its own; scores and labels exist before, as they do in a training
run.

With `--planning`: what `go.recommended` needs to plan an epoch from remembered losses, next to `torch.randperm` and one
pass over the losses, at 10^6 to 10^8 examples, each in a process of its own. It is the median over epochs that skip 43%
of the examples. Bytes are per example. Peaks are above what the process held before, and include the new epoch;
`state_bytes` are those of `state_dict`. `first` is the first such epoch of a run, which also copies the losses and
deals the examples to the parts that take turns.

    python benchmarks/sampler.py                # writes results/sampler.csv
    python benchmarks/sampler.py --planning     # adds its columns; 10^8 examples need 6 GiB
"""

import csv
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler

import gradorder as go
from gradorder_lab.runs.origin import check_shippable, facts

BATCH_SIZE = 128
NUM_CLASSES = 10
ROUNDS = {10**4: 2000, 10**5: 100, 10**6: 15, 10**7: 5}
STEP_ROUNDS = 20
PLANNED = {10**6: 15, 10**7: 5, 10**8: 1}  # examples -> rounds
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


def print_planning(num_examples: int) -> None:
    """Measure planning in this process, and print its columns."""
    torch.set_num_threads(THREADS)
    generator = torch.Generator().manual_seed(0)
    losses = torch.rand(num_examples, generator=generator) ** 6  # 57% are not fitted, or have their turn
    rounds = PLANNED[num_examples]
    randperm = median(cost(lambda: torch.randperm(num_examples, generator=generator))[0] for _ in range(rounds))
    reading = median(cost(lambda: float(losses.mean()))[0] for _ in range(rounds))
    go.recommended(BATCH_SIZE, BATCH_SIZE, epochs=2).set_epoch(1)  # what is loaded on first use does not count
    sampler = go.recommended(num_examples, BATCH_SIZE, epochs=10 + rounds)
    first = cost(partial(sampler.set_epoch, 1, scores=losses))
    taken = [cost(partial(sampler.set_epoch, epoch)) for epoch in range(2, 2 + rounds)]
    saving, saved_bytes = cost(sampler.state_dict)
    state = sampler.state_dict()
    state_bytes = sum(each.numel() * each.element_size() for each in state.values() if isinstance(each, torch.Tensor))
    seconds_of = median(each[0] for each in taken)
    row = {
        "randperm_seconds": round(randperm, 4),
        "planning_seconds": round(seconds_of, 4),
        "planning_ratio": round(seconds_of / (randperm + reading), 2),
        "first_planning_ratio": round(first[0] / (randperm + reading), 2),
        "planning_peak_bytes": round(max(each[1] for each in taken) / num_examples, 1),
        "first_planning_peak_bytes": round(first[1] / num_examples, 1),
        "state_seconds": round(saving, 4),
        "state_peak_bytes": round(saved_bytes / num_examples, 1),
        "state_bytes": round(state_bytes / num_examples, 2),
    }
    print(json.dumps(row))


def cost(function: Callable[[], object]) -> tuple[float, int]:
    """Processor seconds, and the bytes of the peak above what was held before."""
    Path("/proc/self/clear_refs").write_text("5")
    before = status_kibibytes("VmRSS")
    started = time.process_time()
    function()
    return time.process_time() - started, 1024 * (status_kibibytes("VmHWM") - before)


def measure_planning() -> None:
    """Add the columns of planning to the rows of all sizes; other columns stay as they are."""
    found = facts()
    check_shippable(found)
    with RESULTS.open(newline="") as file:
        rows = {int(row["examples"]): row for row in csv.DictReader(file)}
    for size in PLANNED:
        command = [sys.executable, __file__, "--print-planning", str(size)]
        environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # freed memory is given back at once
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)  # noqa: S603
        printed = done.stdout
        print(size, printed, flush=True)
        # The other columns may be of another machine, so these name theirs.
        columns = json.loads(printed) | {"planning_commit": found["commit"], "planning_machine": machine()}
        rows[size] = rows.get(size, {"examples": size}) | columns
        write([rows[each] for each in sorted(rows)])


def write(rows: list[dict[str, Any]]) -> None:
    """Write all rows, with the columns of all of them."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


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
    with RESULTS.open(newline="") as file:
        kept: dict[str, dict[str, object]] = {row["examples"]: dict(row) for row in csv.DictReader(file)}
    for row in rows:
        kept.setdefault(str(row["examples"]), {}).update(row)
    write(list(kept.values()))
    print(f"\nwritten to {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")


if __name__ == "__main__":
    if "--peak" in sys.argv:
        print_peak(sys.argv[-2], int(sys.argv[-1]))
    elif "--print-planning" in sys.argv:
        print_planning(int(sys.argv[-1]))
    elif "--planning" in sys.argv:
        measure_planning()
    else:
        main()

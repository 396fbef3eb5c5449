"""What the laboratory's training loop costs, and what scoring adds to it.

Three parts, each on one thread and in processor time, so that waiting for a busy machine does not count:

- loop: a random epoch of `train_one_epoch` over a plain loop that does the same work on the same tensors.
- scoring: an epoch of "mini ordered" (every example scored, the hardest half trained on), for each score, sorted first
  and sorted within the batch; the part of it that is scoring, and the whole of it over a random epoch on all examples.
- paper epoch: a random epoch of the size "paper", augmented, batches of 128: CIFAR-10 whole, of CIFAR-100 the first few
  of each class; each in a process of its own, with its peak memory.

In the first two everything takes turns in one process, and the fastest round of each counts: other work on the machine
only adds. The images are noise of the data sets' shapes; only the last part reads real ones, where `--data DIR` says
where they are.

    python benchmarks/neural_training.py [--data DIR] [--parts loop scoring "paper epoch"]

writes results/neural_training.csv.
"""

import argparse
import csv
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from gradorder_lab.data import ImageDataset, load
from gradorder_lab.paper import cifar
from gradorder_lab.paper.network import RANDOM, SCORES, NeuralRecipe
from gradorder_lab.runs import origin
from gradorder_lab.training.network import NetworkRun, train_one_epoch
from gradorder_lab.training.split import Split

RESULTS = Path(__file__).resolve().parent.parent / "results" / "neural_training.csv"
THREADS = 1
SORTS = ("first", "within")
PAPER = {"cifar10": None, "cifar100": 1000}
"""The data sets of the last part, and how many images are taken where it is not all."""


@dataclass(frozen=True)
class Workload:
    """A network, and as many images of its data set's shape as are enough to measure: all of MNIST for the smallest."""

    model: str
    shape: tuple[int, int, int]
    num_classes: int
    num_examples: int
    batch_size: int
    rounds: int
    loop_examples: int
    loop_rounds: int

    @property
    def recipe(self) -> NeuralRecipe:
        """Random training."""
        return NeuralRecipe(
            experiment="benchmark", data="noise", model=self.model, batch_size=self.batch_size, momentum=0.9
        )


WORKLOADS = {
    "2-layer net, MNIST": Workload("2-layer", (1, 28, 28), 10, 6_000, 128, 7, 60_000, 9),
    "7-layer net, MNIST": Workload("7-layer", (1, 28, 28), 10, 3_000, 128, 5, 6_000, 21),
    "ResNet-20, CIFAR-10": Workload("resnet20", (3, 32, 32), 10, 256, 128, 3, 256, 21),
    "ResNet-18, CIFAR-100": Workload("resnet18", (3, 32, 32), 100, 64, 32, 3, 64, 7),
}

Row = dict[str, object]


def noise(shape: tuple[int, int, int], num_classes: int, num_examples: int) -> ImageDataset:
    """Random bytes, with a few classes in turn: of a class with one example nothing could be left out."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (num_examples, *shape), dtype=torch.uint8, generator=generator)
    labels = torch.arange(num_examples) % 8
    return ImageDataset(images, labels, num_classes, mean=(0.5,) * shape[0], std=(0.25,) * shape[0])


def training_of(recipe: NeuralRecipe, train: ImageDataset) -> NetworkRun:
    """A run that counts processor time."""
    training = replace(recipe.training, measured={"train": "train"})
    run = training.start_on(Split(train, None, train, train.num_classes), 0)
    run.clock = time.process_time  # type: ignore[method-assign]
    return run


def seconds(action: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    started = time.process_time()
    action()
    return time.process_time() - started


# ---------------------------------------------------------------- the loop


def plain_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, train: ImageDataset, batch_size: int) -> None:
    """What one writes by hand: shuffle, cut, normalise, step, with a step size that decreases."""
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (train.mean, train.std))
    scale, shift = 1 / (255 * std), -mean / std
    model.train()
    for step, indices in enumerate(torch.randperm(len(train)).split(batch_size)):
        inputs = train.images.index_select(0, indices).float().mul_(scale).add_(shift)
        targets = train.labels.index_select(0, indices)
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (1 + step)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def loop_row(work: Workload, train: ImageDataset) -> Row:
    """Our loop over the plain one."""
    ours, theirs = (training_of(work.recipe, train) for _ in range(2))  # the same start, the same memory layout
    actions: dict[str, Callable[[], object]] = {
        "ours": lambda: train_one_epoch(ours, ours.next_epoch),
        "plain": lambda: plain_epoch(theirs.model, theirs.optimizer, train, work.batch_size),
    }
    for action in actions.values():
        action()  # once to warm up
    taken = []
    for number in range(work.loop_rounds):
        names = list(actions)[:: 1 if number % 2 else -1]  # who is first takes turns too
        ours.next_epoch = number + 1
        taken.append({name: seconds(actions[name]) for name in names})
    fastest = {name: min(each[name] for each in taken) for name in actions}
    return {
        "seconds": f"{fastest['ours']:.3g}",
        "baseline_seconds": f"{fastest['plain']:.3g}",
        "ratio": f"{fastest['ours'] / fastest['plain']:.3f}",
    }


# ---------------------------------------------------------------- scoring


def scoring_rows(work: Workload, train: ImageDataset) -> Iterator[Row]:
    """Every score, sorted first and within, over a random epoch."""
    mini = replace(work.recipe, method="mini ordered")
    runs = {(score, sort): replace(mini, score=score, sort=sort) for score in SCORES for sort in SORTS}  # type: ignore[arg-type]
    trainings = {key: training_of(recipe, train) for key, recipe in {("", "none"): work.recipe, **runs}.items()}
    taken = [{key: epoch_and_scoring(run, number) for key, run in trainings.items()} for number in range(work.rounds)]
    fastest = {key: min(each[key] for each in taken) for key in trainings}
    random, _ = fastest["", "none"]
    for score, sort in runs:
        epoch, scoring = fastest[score, sort]
        yield {
            "score": score,
            "sort": sort,
            "seconds": f"{epoch:.3g}",
            "baseline_seconds": f"{random:.3g}",
            "ratio": f"{epoch / random:.2f}",
            "scoring_share": f"{scoring / epoch:.2f}",
        }


def epoch_and_scoring(run: NetworkRun, number: int) -> tuple[float, float]:
    """Seconds of an epoch, and of the scoring in it; the first time an epoch to warm up goes before."""
    for epoch in (0, 1) if number == 0 else (number + 1,):
        before = replace(run.cost)
        train_one_epoch(run, epoch)
    return run.cost.seconds - before.seconds, run.cost.score_seconds - before.score_seconds


# ---------------------------------------------------------------- an epoch of the paper's


def paper_row(data: str, directory: Path | None) -> Row:
    """One epoch in a process of its own."""
    command = [sys.executable, __file__, "--epoch", data, *(["--data", str(directory)] if directory else [])]
    found: Row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603 - ourselves
    return found


def print_paper_epoch(data: str, directory: Path | None) -> None:
    """The child process's part."""
    recipe = cifar.cifar_recipe(data, "paper", RANDOM, 0.0)
    num_train = PAPER[data]
    train = noise((3, 32, 32), 10 if data == "cifar10" else 100, 50_000)
    if directory is not None:  # for a few images the files need not be complete
        train, _ = load(data, data_dir=directory, size="paper" if num_train is None else "cpu")
    run = training_of(replace(recipe, num_train=num_train), train if num_train is None else train.subset(num_train))
    started = time.perf_counter()
    train_one_epoch(run, 0)
    row = {
        "examples": run.cost.trained,
        "batch_size": recipe.batch_size,
        "images": "real" if directory else "noise",
        "seconds": f"{run.cost.seconds:.0f}",
        "wall_seconds": f"{time.perf_counter() - started:.0f}",
        "peak_mebibytes": peak_mebibytes(),
    }
    print(json.dumps(row))


def peak_mebibytes() -> int:
    """The most memory that this process held, from Linux's account; `getrusage` would count its parent's peak too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


# ---------------------------------------------------------------- the table


def loop_rows(_: Path | None) -> Iterator[Row]:
    """Every network's loop."""
    for common, work, train in workloads(lambda work: work.loop_examples):
        yield common | loop_row(work, train)


def all_scoring_rows(_: Path | None) -> Iterator[Row]:
    """Every network's scores."""
    for common, work, train in workloads(lambda work: work.num_examples):
        yield from (common | row for row in scoring_rows(work, train))


def paper_rows(directory: Path | None) -> Iterator[Row]:
    """Both data sets' epochs."""
    for data in PAPER:
        net = next(net for net, work in WORKLOADS.items() if work.model == cifar.NET_OF[data])
        yield {"net": net, **paper_row(data, directory)}


def workloads(size: Callable[[Workload], int]) -> Iterator[tuple[Row, Workload, ImageDataset]]:
    """What is measured on: as columns, as it is, and so many of its images."""
    for net, work in WORKLOADS.items():
        common: Row = {"net": net, "examples": size(work), "batch_size": work.batch_size, "images": "noise"}
        yield common, work, noise(work.shape, work.num_classes, size(work))


PARTS = {"loop": loop_rows, "scoring": all_scoring_rows, "paper epoch": paper_rows}


COLUMNS = (
    "part", "net", "score", "sort", "examples", "batch_size", "images", "seconds", "baseline_seconds", "ratio",
    "scoring_share", "wall_seconds", "peak_mebibytes", "threads", "machine", "versions",
)  # fmt: skip


def main(parts: list[str], directory: Path | None) -> None:
    """Measure, print and save; the rows of other parts stay as they are."""
    versions = f"python {platform.python_version()}, torch {torch.__version__}"
    facts = {"threads": THREADS, "machine": origin.facts()["machine"], "versions": versions}
    for part in parts:
        found = []
        for row in PARTS[part](directory):
            found.append({"part": part, **row, **facts})
            print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        save(part, found)
    print(f"\nwritten to {RESULTS.name}")


def save(part: str, found: list[Row]) -> None:
    """Replace the rows of one part."""
    before: list[Row] = []
    if RESULTS.exists():
        with RESULTS.open(newline="") as file:
            before += csv.DictReader(file)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=COLUMNS, restval="")
        writer.writeheader()
        for name in PARTS:
            writer.writerows(found if name == part else [row for row in before if row["part"] == name])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The cost of the training loop and of scoring.")
    parser.add_argument("--data", type=Path, help="directory with the CIFARs' original files; noise without it")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="which to measure (all)")
    parser.add_argument("--epoch", choices=PAPER, help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    if given.epoch:
        print_paper_epoch(given.epoch, given.data)
    else:
        main(given.parts, given.data)

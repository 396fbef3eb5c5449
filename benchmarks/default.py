"""How the numbers of `go.recommended` were chosen: its variants against random reshuffling, on held-out parts.

The test part of every task is held out of its training set; test sets are not read. Tasks: Fashion-MNIST (a net with
one hidden layer), `terrain` (a table made by the laboratory), SST-2 (a bag of words), Friedman's regression, a table
with a tenth of the labels at random. Each is trained by SGD with momentum and by AdamW, with one learning rate for all
variants and half a cosine over the run. `gradients` are those of the run over those of as many complete epochs.

Variants: random and stratified reshuffling; `default`, that is `for epoch in sampler.run()`; `range`, that is
`for epoch in range(epochs)`; the default with another exponent of the worth of an epoch, another limit of the audit, or
without the audit.

    python benchmarks/default.py --data DIR     # writes results/default.csv, row by row; continues where it stopped
"""

import argparse
import csv
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder.orderings import unlearned
from gradorder_lab.data import load
from gradorder_lab.data.sst2 import sst2
from gradorder_lab.data.terrain import terrain
from gradorder_lab.models.bag_of_words import BagOfWords
from gradorder_lab.runs.origin import check_shippable, facts

RESULTS = Path(__file__).resolve().parent.parent / "results" / "default.csv"
BATCH_SIZE = 128
HELD_OUT = 10_000
THREADS = 1

Split = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""Inputs and targets to train on, and held-out ones."""


def cut(inputs: torch.Tensor, targets: torch.Tensor, num_held_out: int) -> Split:
    """Hold out a fixed random part."""
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    held, rest = order[:num_held_out], order[num_held_out:]
    return inputs[rest], targets[rest], inputs[held], targets[held]


def fashion_mnist(directory: Path) -> Split:
    """Images, standardised."""
    train, _ = load("fashion-mnist", data_dir=directory, size="cpu")
    inputs, labels = train.batch(torch.arange(len(train)))
    return cut(inputs.flatten(1), labels, HELD_OUT)


def terrain_table(directory: Path) -> Split:
    """A made table with seven classes of different sizes."""
    del directory
    train = terrain()[0]
    return cut(train.inputs, train.labels, HELD_OUT)


def phrases(directory: Path) -> Split:
    """SST-2."""
    train = sst2(directory)[0]
    return cut(train.inputs, train.labels, HELD_OUT)


def friedman(directory: Path) -> Split:
    """Friedman's first regression problem, standardised, with noise of variance 1 before that."""
    del directory
    rng = np.random.default_rng(0)
    x = rng.random((10_000, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    y = (y + rng.standard_normal(len(y)) - 14.4) / 5
    return cut(torch.from_numpy(x).float(), torch.from_numpy(y).float(), 5000)


def noisy_table(directory: Path) -> Split:
    """Two classes in eight clusters, a tenth of the labels at random."""
    from sklearn.datasets import make_classification  # noqa: PLC0415 - an extra

    del directory
    settings = {"n_informative": 12, "n_redundant": 8, "n_clusters_per_class": 4, "class_sep": 0.9}
    x, y = make_classification(14_000, 40, flip_y=0.1, random_state=3, **settings)
    return cut(torch.from_numpy(x).float(), torch.from_numpy(y).long(), 4000)


def two_layers(num_inputs: int, num_classes: int) -> nn.Module:
    """One hidden layer."""
    return nn.Sequential(nn.Linear(num_inputs, 128), nn.ReLU(), nn.Linear(128, num_classes))


def regressor() -> nn.Module:
    """Two hidden layers and one output."""
    layers = [nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0)]
    return nn.Sequential(*layers)


@dataclass(frozen=True)
class Task:
    """Data, a model, and the learning rates that suit random reshuffling."""

    data: Callable[[Path], Split]
    model: Callable[[], nn.Module]
    epochs: int
    sgd: float
    adamw: float


TASKS = {
    "friedman": Task(friedman, regressor, 15, 0.05, 3e-3),
    "noisy table": Task(noisy_table, partial(two_layers, 40, 2), 15, 0.05, 2e-3),
    "terrain": Task(terrain_table, partial(two_layers, 54, 7), 10, 0.2, 3e-3),
    "fashion-mnist": Task(fashion_mnist, partial(two_layers, 784, 10), 10, 0.05, 2e-3),
    "sst2": Task(phrases, partial(BagOfWords, 15_000, 2), 8, 0.8, 3e-3),
}


@contextmanager
def constants(limit: float = unlearned.LIMIT, exponent: float = unlearned.WORTH_EXPONENT) -> Iterator[None]:
    """Change the numbers of the default for a while."""
    before = unlearned.LIMIT, unlearned.WORTH_EXPONENT
    unlearned.LIMIT, unlearned.WORTH_EXPONENT = limit, exponent
    try:
        yield
    finally:
        unlearned.LIMIT, unlearned.WORTH_EXPONENT = before


VARIANTS: dict[str, dict[str, float]] = {
    "random": {},
    "stratified": {},
    "default": {},
    "range": {},
    "exponent 0.75": {"exponent": 0.75},
    "limit 0.25": {"limit": 0.25},
    "no audit": {"limit": math.inf},
}


def sampler_of(variant: str, dataset: torch.utils.data.TensorDataset, epochs: int, seed: int) -> go.OrderedSampler:
    """The sampler of a variant."""
    if variant in {"random", "stratified"}:
        labels = "auto" if variant == "stratified" else None
        return go.OrderedSampler(dataset, BATCH_SIZE, ordering=go.Shuffled(), labels=labels, seed=seed, epochs=epochs)
    return go.recommended(dataset, BATCH_SIZE, epochs=epochs, seed=seed)


def losses_of(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy for classes, squared error for numbers."""
    if targets.is_floating_point():
        return (outputs - targets) ** 2
    return F.cross_entropy(outputs, targets, reduction="none")


def train(task: Task, split: Split, optimizer: str, variant: str, seed: int) -> dict[str, float]:
    """Train once, and return held-out loss and accuracy, gradients and epochs."""
    inputs, targets, held_inputs, held_targets = split
    torch.manual_seed(seed)
    model = task.model()
    rate = getattr(task, optimizer)
    updates: torch.optim.Optimizer = (
        torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        if optimizer == "sgd"
        else torch.optim.AdamW(model.parameters(), lr=rate)
    )
    dataset = torch.utils.data.TensorDataset(inputs, targets)
    sampler = sampler_of(variant, dataset, task.epochs, seed)
    scheduler = go.ProgressLR(updates, sampler)
    num_visited = 0
    epochs = range(task.epochs) if variant == "range" else sampler.run()
    for epoch in epochs:
        sampler.set_epoch(epoch)
        for indices in torch.tensor(list(sampler)).split(BATCH_SIZE):
            losses = losses_of(model(inputs[indices]), targets[indices])
            updates.zero_grad()
            losses.mean().backward()
            updates.step()
            sampler.step(losses.detach())
            scheduler.step()
        num_visited += len(sampler)
    with torch.no_grad():
        outputs = model(held_inputs)
    is_regression = held_targets.is_floating_point()
    accuracy = math.nan if is_regression else 100 * float((outputs.argmax(1) == held_targets).float().mean())
    return {
        "loss": float(losses_of(outputs, held_targets).mean()),
        "accuracy": accuracy,
        "gradients": num_visited / (task.epochs * len(inputs)),
        "epochs": epoch + 1,
        "skipped": sampler.summary().skipped,
    }


FIELDS = ("task", "optimizer", "variant", "seed", "loss", "accuracy", "gradients", "epochs", "skipped")
ORIGIN = ("commit", "host", "machine", "torch", "threads")


def main() -> None:
    """Run what is missing, in an order that has the main comparison first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the directory with Fashion-MNIST and SST-2")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    found = facts()
    check_shippable(found)
    where = {name: found[name] for name in ORIGIN if name in found} | {"threads": THREADS}
    is_new = not args.out.exists()
    done = set() if is_new else {tuple(row[name] for name in FIELDS[:4]) for row in csv.DictReader(args.out.open())}
    split_of = cache(lambda name: TASKS[name].data(args.data))
    with args.out.open("a", newline="") as file:
        rows = csv.DictWriter(file, (*FIELDS, *ORIGIN), lineterminator="\n")
        if is_new:
            rows.writeheader()
        for seed in range(args.seeds):
            for name in args.tasks:
                for optimizer in ("sgd", "adamw"):
                    for variant in args.variants:
                        if (name, optimizer, variant, str(seed)) in done:
                            continue
                        with constants(**VARIANTS[variant]):
                            numbers = train(TASKS[name], split_of(name), optimizer, variant, seed)
                        shown = {key: f"{value:.6g}" for key, value in numbers.items()}
                        keys = {"task": name, "optimizer": optimizer, "variant": variant, "seed": seed}
                        rows.writerow({**keys, **shown, **where})
                        file.flush()


if __name__ == "__main__":
    main()

"""What decides how many gradients `go.recommended` saves: the fitted share, epochs, noisy labels, class balance.

    python benchmarks/saving.py --data DIR     # writes results/saving.csv, row by row; continues where it stopped

A row is one setting and one seed, trained twice: by random reshuffling and by `go.recommended`. Halfway through the
run of random reshuffling, and at its end, the rule of `go.recommended` is applied to the losses of the whole training
set: `skipped_halfway` and `skipped_at_end` are what `go.advise` would say then. `gradients` are those of
`go.recommended` over those of random reshuffling.

Settings: every task of the benchmark that has rows, with its learning rate; and variations of two tasks, one thing at a
time: the number of epochs, the share of noisy labels, the share of its examples that the rarest class is left with.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

import gradorder as go
from gradorder_lab.benchmark.referee import referee
from gradorder_lab.benchmark.rows import read_rows, rows_of_task
from gradorder_lab.benchmark.suites import CONFIRMATION, FASHION_MNIST
from gradorder_lab.benchmark.task import Task
from gradorder_lab.methods import BASELINE, RECOMMENDED, named
from gradorder_lab.runs.origin import check_shippable, facts
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.training.network import NetworkRun, train

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "saving.csv"
THREADS = 1

EPOCHS = (3, 5, 10, 20, 40, 80)
NOISY = (0.1, 0.2, 0.4)
RAREST = (0.3, 0.1, 0.02)
LEARNING_RATE = 1e-3
VARIED = (
    replace(next(task for task in CONFIRMATION if task.name == "digits, AdamW"), epochs=20),
    replace(FASHION_MNIST, epochs=20, num_train=10_000, optimizer="AdamW", weight_decay=0.01),
)

FIELDS = ("part", "task", "epochs", "noisy_labels", "rarest", "seed")
MEASURED = ("skipped_halfway", "skipped_at_end", "gradients", "loss_random", "loss", "accuracy_random", "accuracy")
ORIGIN = ("commit", "host", "machine", "torch", "threads")


def settings() -> Iterator[tuple[str, Task, float, int]]:
    """Yield part, task, learning rate and number of seeds."""
    for task in VARIED:
        yield from (("epochs", replace(task, epochs=epochs), LEARNING_RATE, 3) for epochs in EPOCHS)
        yield from (("noisy labels", replace(task, wrong_labels=noisy), LEARNING_RATE, 3) for noisy in NOISY)
        yield from (("class balance", replace(task, rarest=rarest), LEARNING_RATE, 3) for rarest in RAREST)
    rows = read_rows(ROOT / "results" / "benchmark.parquet")
    for task in CONFIRMATION:
        found = rows_of_task(task, rows)
        contest = referee(task)
        if found and not contest.searches(found):
            yield "benchmark", task, contest.step_size(BASELINE, found), 1 if "MiniLM" in task.name else 2


def measured(task: Task, learning_rate: float, seed: int, data: Path) -> dict[str, float]:
    """Train by both, and return the numbers of a row."""
    workspace = Workspace(data=data, threads=THREADS)
    random, recommended = (
        task.training(named(method), learning_rate).start(seed, workspace) for method in (BASELINE, RECOMMENDED)
    )
    train(random, max(1, task.epochs // 2))
    halfway = skipped(random)
    train(random, task.epochs)
    train(recommended, task.epochs)
    for run in (random, recommended):
        run.note()
    plain, ours = ({name: float(column[-1]) for name, column in run.rows().items()} for run in (random, recommended))
    return {
        "skipped_halfway": halfway,
        "skipped_at_end": skipped(random),
        "gradients": ours["trained"] / plain["trained"],
        "loss_random": plain["test_loss"],
        "loss": ours["test_loss"],
        "accuracy_random": plain["test_accuracy"],
        "accuracy": ours["test_accuracy"],
    }


def skipped(run: NetworkRun) -> float:
    """The share of the next epoch that `go.recommended` would skip at the current weights, as `go.advise` says it."""
    losses = run.scored(torch.arange(len(run.train)), go.Loss(run.losses))
    rule = go.Unlearned()
    is_fitted = rule.is_fitted(go.Request(0, len(losses), torch.Generator(), scores=losses))
    return (1 - 1 / rule.every) * float(is_fitted.double().mean())


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the directory with the original files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    found = facts()
    check_shippable(found)
    where = {name: found[name] for name in ORIGIN if name in found} | {"threads": THREADS}
    is_new = not args.out.exists()
    done = set() if is_new else {tuple(row[name] for name in FIELDS) for row in csv.DictReader(args.out.open())}
    with args.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, (*FIELDS, *MEASURED, *ORIGIN), lineterminator="\n")
        if is_new:
            writer.writeheader()
        for part, task, learning_rate, num_seeds in settings():
            for seed in range(num_seeds):
                keys = dict(
                    zip(FIELDS, (part, task.name, task.epochs, task.wrong_labels, task.rarest, seed), strict=True)
                )
                if tuple(map(str, keys.values())) in done:
                    continue
                numbers = measured(task, learning_rate, seed, args.data)
                writer.writerow({**keys, **{name: f"{value:.6g}" for name, value in numbers.items()}, **where})
                file.flush()


if __name__ == "__main__":
    main()

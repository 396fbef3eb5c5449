"""How the score of a whole data set grows with its size and with the batch size.

python benchmarks/score_dataset.py            # writes results/score_dataset.csv
"""

import csv
import time
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.utils.data import TensorDataset

import gradorder as go
from gradorder_lab import models

RESULTS = Path(__file__).resolve().parent.parent / "results" / "score_dataset.csv"
THREADS = 2
ROUNDS = 3
BATCH_SIZES = [32, 64, 128, 256, 512, 1024, 2048]
SIZES = [1_000, 4_000, 16_000, 60_000]
DEFAULT = 256


def images(num_examples: int) -> TensorDataset:
    """Noise of 28x28 pixels with labels."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(num_examples, 1, 28, 28, generator=generator)
    return TensorDataset(pixels, torch.randint(10, (num_examples,), generator=generator))


def microseconds(model: nn.Module, dataset: TensorDataset, batch_size: int) -> float:
    """The median time per example."""
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        go.score_dataset(model, dataset, go.GradientNorm(), batch_size=batch_size)
        taken.append(time.perf_counter() - started)
    return median(taken) / len(dataset) * 1e6


def main() -> None:
    """Measure, print and save."""
    torch.set_num_threads(THREADS)
    rows = []
    for name, model, num_examples in (("MLP", models.mlp(), 16_000), ("conv net", models.conv_net(), 2_048)):
        dataset = images(num_examples)
        settings = [(num_examples, batch_size) for batch_size in BATCH_SIZES]
        if name == "MLP":
            settings += [(size, DEFAULT) for size in SIZES]
        for size, batch_size in settings:
            part = dataset if size == num_examples else images(size)
            taken = round(microseconds(model, part, batch_size), 1)
            rows.append({"model": name, "examples": size, "batch_size": batch_size, "microseconds_per_example": taken})
            print(f"{name:10} {size:>7} examples, batches of {batch_size:>5}: {taken:>8} us per example", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()

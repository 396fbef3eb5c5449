"""What a score costs, as a multiple of one plain forward and backward pass over the same batch.

All in turn in one process, the median of several rounds.

    python benchmarks/scores.py            # writes results/scores.csv
"""

import csv
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import nn

import gradorder as go
from gradorder_lab.models import conv_net, mlp

RESULTS = Path(__file__).resolve().parent.parent / "results" / "scores.csv"
THREADS = 2
ROUNDS = 15

SCORES: dict[str, Callable[[nn.Module, object], torch.Tensor]] = {
    "GradientNorm": go.GradientNorm(),
    "LastLayerBound": go.LastLayerBound(),
    "LogitError": go.LogitError(),
    "Loss": go.Loss(),
}


def models() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]]:
    """Two nets of the paper's size, each with a batch."""
    torch.manual_seed(0)
    return {
        "MLP 784-128-10, batch 256": (mlp(), (torch.randn(256, 1, 28, 28), torch.randint(10, (256,)))),
        "7-layer conv net, batch 128": (conv_net(), (torch.randn(128, 1, 28, 28), torch.randint(10, (128,)))),
    }


def training_pass(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    """One plain forward and backward pass."""
    model.zero_grad()
    nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()


def seconds(action: Callable[[], object]) -> float:
    """How long it took once."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def ratios(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> dict[str, float]:
    """Each score's median time over that of the training pass."""
    actions: dict[str, Callable[[], object]] = {"training pass": lambda: training_pass(model, batch)}
    for name, score in SCORES.items():
        actions[name] = lambda score=score: score(model, batch)  # type: ignore[misc]
    rounds = [{name: seconds(action) for name, action in actions.items()} for _ in range(ROUNDS + 1)][1:]
    plain = median(each["training pass"] for each in rounds)
    return {name: round(median(each[name] for each in rounds) / plain, 2) for name in SCORES}


def main() -> None:
    """Measure, print and save."""
    torch.set_num_threads(THREADS)
    rows = [{"model": name, **ratios(model, batch)} for name, (model, batch) in models().items()]
    print(f"time as a multiple of one forward and backward pass, {THREADS} threads\n")
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()

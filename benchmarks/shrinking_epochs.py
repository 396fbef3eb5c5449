"""Record which examples a run with `go.recommended` visits, for the picture of docs/how_it_works.md.

    python benchmarks/shrinking_epochs.py    # writes results/shrinking_epochs.csv, in seconds

A small network learns the handwritten digits that come with scikit-learn. A row of the CSV is an epoch. The column
`visits` shows the first examples of the dataset: "v" for visited, "s" for skipped, "r" for visited again after the
epoch before had skipped it.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import gradorder as go

RESULTS = Path(__file__).resolve().parent.parent / "results" / "shrinking_epochs.csv"
NUM_EXAMPLES, NUM_SHOWN, EPOCHS = 1500, 36, 10


def main() -> None:
    """Train once, and write the CSV."""
    torch.set_num_threads(1)
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["epoch", "visited_share", "visits"])
        writer.writerows(rows(seed=0))


def rows(seed: int) -> Iterator[tuple[int, str, str]]:
    """Yield epoch, share of visited examples, and the visits of the first examples."""
    before = torch.ones(NUM_EXAMPLES, dtype=torch.bool)
    for epoch, is_visited in visits(seed):
        states = ["s" if not now else "v" if then else "r" for now, then in zip(is_visited, before, strict=True)]
        yield epoch, f"{float(is_visited.double().mean()):.3f}", "".join(states[:NUM_SHOWN])
        before = is_visited


def visits(seed: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Train, and yield for each epoch which examples it visited."""
    inputs, targets = (torch.as_tensor(column[:NUM_EXAMPLES]) for column in load_digits(return_X_y=True))
    dataset = TensorDataset(inputs.float() / 16, targets, torch.arange(NUM_EXAMPLES))
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sampler = go.recommended(dataset, batch_size=50, epochs=EPOCHS, labels=targets, seed=seed)
    loader = sampler.loader(dataset)
    scheduler = go.ProgressLR(optimizer, sampler)
    for epoch in sampler.run():
        is_visited = torch.zeros(NUM_EXAMPLES, dtype=torch.bool)
        for batch, classes, indices in loader:
            losses = F.cross_entropy(model(batch), classes, reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            sampler.step(losses.detach(), indices=indices)
            scheduler.step()
            is_visited[indices] = True
        yield epoch, is_visited


if __name__ == "__main__":
    main()

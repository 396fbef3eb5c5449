"""What the batches of an epoch hold, and what they do to the network: sorted, dealt and random.

    python benchmarks/epoch_diagnostics.py results/epoch_diagnostics.csv [DATA]

trains the 2-layer net on the shipped part of MNIST, and on all of it where DATA holds its files, and writes a row for
each tenth of the first epochs, for docs/neural.md.
"""

import csv
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch

from gradorder.scores import Score
from gradorder_lab.data import ImageDataset
from gradorder_lab.paper import grey_images
from gradorder_lab.paper.network import RANDOM, SCORES, Variant, begin
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.training.network import NetworkRun, evaluate

WAYS: dict[str, Variant] = {
    "random": RANDOM,
    "contiguous": ("full ordered", "first"),
    "dealt": ("full ordered", "first dealt"),
    "half contiguous": ("mini ordered", "first"),
    "half dealt": ("mini ordered", "first dealt"),
}
"""All examples in three layouts, and the hardest half in two of them."""

SHIPPED_SIZES = (4480, 5000)
"""Whole batches only, and, as in the recipes of size "mini", a last batch of 8 examples."""

WHOLE = 60_000
NUM_EPOCHS = 3

_PARTS = 10
_BATCH = 500


@dataclass(frozen=True)
class Tenth:
    """A tenth of an epoch's steps.

    Args:
        epoch: from 0.
        tenth: from 1.
        score: mean gradient norm, as it was at the epoch's start, of the examples trained on.
        ink: mean brightness of their pixels, 0 to 255.
        last_batch: how many examples the last batch has.
        last_score: their mean gradient norm.
        largest_class: the largest share that a class has in one of the batches.
        hard_loss: afterwards, the mean loss of the half that was harder at the epoch's start.
        easy_loss: and of the other half.
        test_accuracy: afterwards, in percent.
    """

    epoch: int
    tenth: int
    score: float
    ink: float
    last_batch: int
    last_score: float
    largest_class: float
    hard_loss: float
    easy_loss: float
    test_accuracy: float


def tenths(run: NetworkRun, epoch: int) -> Iterator[Tenth]:
    """Train one epoch, and look at the network ten times."""
    scores = _over_all(run, SCORES["gradient norm"])
    hardest_first = scores.argsort(descending=True, stable=True)
    hard, easy = hardest_first.tensor_split(2)
    batches = run.batches(epoch)
    for number, part in enumerate(np.array_split(np.arange(len(batches)), _PARTS)):
        chosen = [batches[index] for index in part]
        run.model.train()
        for indices in chosen:
            run.update(run.train.batch(indices), None, run.step_size(run.cost.updates, epoch, 0.0))
        losses = _over_all(run, SCORES["loss"])
        classes = [run.train.labels[indices].bincount().max().item() / len(indices) for indices in chosen]
        yield Tenth(
            epoch=epoch,
            tenth=number + 1,
            score=scores[torch.cat(chosen)].mean().item(),
            ink=cast("ImageDataset", run.train).images[torch.cat(chosen)].double().mean().item(),
            last_batch=len(chosen[-1]),
            last_score=scores[chosen[-1]].mean().item(),
            largest_class=max(classes),
            hard_loss=losses[hard].mean().item(),
            easy_loss=losses[easy].mean().item(),
            test_accuracy=evaluate(run.model, run.measured["test"])[1],
        )


def _over_all(run: NetworkRun, score: Score) -> torch.Tensor:
    parts = torch.arange(len(run.train), device=run.device).split(_BATCH)
    return torch.cat([score(run.model, run.train.batch(part)) for part in parts])


def rows(num_train: int, way: str, data: Path | None = None) -> Iterator[dict[str, object]]:
    """One way; all ways have the same start."""
    recipe = grey_images.grey_recipe("mnist", "paper" if num_train == WHOLE else "mini", "2-layer", 128, WAYS[way])
    chosen = None if num_train == WHOLE else num_train
    run = begin(replace(recipe, num_train=chosen), 0, Workspace(data=data))
    for epoch in range(NUM_EPOCHS):
        for tenth in tenths(run, epoch):
            shown = {name: f"{one:.4g}" if isinstance(one, float) else one for name, one in asdict(tenth).items()}
            yield {"examples": num_train, "way": way, **shown}


def write_diagnostics(path: Path, data: Path | None = None) -> None:
    """Write the table."""
    torch.set_num_threads(1)
    sizes = SHIPPED_SIZES if data is None else (*SHIPPED_SIZES, WHOLE)
    found = [row for num_train in sizes for way in WAYS for row in rows(num_train, way, data)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(found[0]))
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    write_diagnostics(*map(Path, sys.argv[1:]))

"""Orders and weights that samplers gave, written down: a change of the code must not change them unseen.

    python tests/gradorder/sampler/golden.py            # writes golden.csv beside it

A row holds the examples of epoch 3, over all processes, and a sum of their weights; or that the setting is refused.
Scores are given to `set_epoch`, or, for one process, remembered from `step`.
"""

import csv
import itertools
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch.utils.data import BatchSampler

import gradorder as go

PATH = Path(__file__).with_name("golden.csv")
NUM_EXAMPLES, BATCH_SIZE, EPOCHS = 53, 12, 4
ORDERINGS = [
    go.Ascending(), go.BlockShuffled(5), go.Descending(), go.FlipFlop(go.Descending()), go.FlipFlop(go.InfoBatch(4)),
    go.FlipFlop(go.PlackettLuce(unbiased=True)), go.FlipFlop(go.Revisiting(go.Descending(), every=3)),
    go.FlipFlop(go.Shuffled()), go.FlipFlop(go.ShuffledOnce()), go.GradientBalancing(), go.GradientBalancing("pair"),
    go.InfoBatch(5), go.Informative(), go.PlackettLuce(), go.PlackettLuce(0.5, unbiased=True),
    go.PlackettLuce(4.0, unbiased=True), go.Revisiting(go.PlackettLuce(unbiased=True), every=8),
    go.Revisiting(go.Shuffled(), every=3), go.Revisiting(go.Undecided(go.PlackettLuce(0.5)), every=8), go.Sequential(),
    go.Shuffled(), go.ShuffledOnce(), go.Undecided(go.Descending()), go.Undecided(go.PlackettLuce(unbiased=True)),
    go.Unlearned(), go.WithReplacement(),
]  # fmt: skip
SETTINGS = [  # layout, labels, keep, drop_last, processes
    ("contiguous", False, 1.0, False, 1),
    ("contiguous", False, 1.0, True, 3),
    ("contiguous", False, 0.5, False, 1),
    ("contiguous", True, 1.0, False, 2),
    ("contiguous", True, 0.5, True, 1),
    ("dealt", False, 0.5, True, 2),
    ("dealt", True, 1.0, False, 1),
    ("shuffled", False, 1.0, True, 1),
    ("shuffled", True, 0.5, False, 3),
]
LABELS = [(i * i) % 7 % 3 for i in range(NUM_EXAMPLES)]


def scores_of(epoch: int) -> torch.Tensor:
    """Positive, with ties and a zero, exact in float32."""
    return torch.tensor([((i * 29 + epoch * 17) % 41) / 8 for i in range(NUM_EXAMPLES)])


def rows(orderings: Sequence[go.Ordering] = ORDERINGS) -> Iterator[dict[str, str]]:
    """One for each ordering and setting."""
    for ordering, (layout, labels, keep, drop_last, processes) in itertools.product(orderings, SETTINGS):
        for is_given in (True, False) if processes == 1 else (True,):
            given = {"ordering": ordering, "layout": layout, "labels": LABELS if labels else None, "keep": keep}
            options = [layout, "labels" * labels, f"{keep:g}", "drop_last" * drop_last, f"x{processes}"]
            run = " ".join(filter(None, [str(ordering), *options, "given" if is_given else "remembered"]))
            try:
                ranks = [last_epoch(given | {"drop_last": drop_last}, processes, k, is_given) for k in range(processes)]
            except ValueError:
                yield {"run": run, "indices": "refused", "weights": ""}
                continue
            weights = torch.cat([weights for _, weights in ranks]).double()
            total = float((weights * torch.arange(1, len(weights) + 1)).sum())  # each by its place
            indices = sum((indices for indices, _ in ranks), [])
            yield {"run": run, "indices": " ".join(map(str, indices)), "weights": f"{total:.7g}"}


def last_epoch(
    settings: dict[str, object], processes: int, rank: int, is_given: bool
) -> tuple[list[int], torch.Tensor]:
    """The examples of one process in its last epoch, and their weights."""
    sampler = go.OrderedSampler(NUM_EXAMPLES, BATCH_SIZE, num_replicas=processes, rank=rank, seed=5, **settings)  # type: ignore[arg-type]
    learns = isinstance(settings["ordering"], go.GradientBalancing)
    for epoch in range(EPOCHS):
        scores, indices, weights = scores_of(epoch), [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler.set_epoch(epoch, scores=scores if is_given else None)
            for batch in BatchSampler(sampler, sampler.loader_batch_size, drop_last=False):
                indices += batch
                weights.append(sampler.weights)
                gradients = torch.stack([scores[batch], scores[batch].flip(0)], 1) if learns else None
                sampler.step(None if is_given else scores[batch], gradients=gradients)
    return indices, torch.cat(weights)


if __name__ == "__main__":
    with PATH.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=["run", "indices", "weights"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows())

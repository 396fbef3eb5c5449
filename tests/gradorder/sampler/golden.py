"""The sequences and weights that samplers gave, written down: a change of the code must not change them unseen.

    python tests/gradorder/sampler/golden.py            # writes golden.csv beside it

Every ordering x layout x labels x keep x drop_last x 1 to 3 processes, 4 epochs each, with scores given to `set_epoch`;
and, for one process, with scores remembered from `step`. A row holds a hash of all indices, which are whole numbers and
the same on every machine, and two sums of the weights, compared with a tolerance: weights come from logarithms and
exponentials, whose last bits differ between processors.
"""

import csv
import hashlib
import itertools
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch.utils.data import BatchSampler

import gradorder as go

PATH = Path(__file__).with_name("golden.csv")
NUM_EXAMPLES = 53
BATCH_SIZE = 12
EPOCHS = 4
ORDERINGS = [
    go.Ascending(),
    go.BlockShuffled(5),
    go.Descending(),
    go.FlipFlop(go.Descending()),
    go.FlipFlop(go.InfoBatch(4)),
    go.FlipFlop(go.PlackettLuce(unbiased=True)),
    go.FlipFlop(go.Revisiting(go.Descending(), every=3)),
    go.FlipFlop(go.Shuffled()),
    go.FlipFlop(go.ShuffledOnce()),
    go.GradientBalancing(),
    go.GradientBalancing("pair"),
    go.InfoBatch(5),
    go.PlackettLuce(),
    go.PlackettLuce(0.5, unbiased=True),
    go.PlackettLuce(4.0, unbiased=True),
    go.Revisiting(go.PlackettLuce(unbiased=True), every=8),
    go.Revisiting(go.Shuffled(), every=3),
    go.Revisiting(go.Undecided(go.PlackettLuce(0.5)), every=8),
    go.Sequential(),
    go.Shuffled(),
    go.ShuffledOnce(),
    go.Undecided(go.Descending()),
    go.Undecided(go.PlackettLuce(unbiased=True)),
    go.Unlearned(),
    go.WithReplacement(),
]
SETTINGS = list(
    itertools.product(
        ["contiguous", "dealt", "shuffled"],  # layout
        [False, True],  # labels
        [1.0, 0.5],  # keep
        [False, True],  # drop_last
        [1, 2, 3],  # processes
    )
)
LABELS = [(i * i) % 7 % 3 for i in range(NUM_EXAMPLES)]


def scores_of(epoch: int) -> torch.Tensor:
    """Positive, with ties and a zero, exact in float32."""
    return torch.tensor([((i * 29 + epoch * 17) % 41) / 8 for i in range(NUM_EXAMPLES)])


def rows(orderings: Sequence[go.Ordering] = ORDERINGS) -> Iterator[dict[str, str]]:
    """One for each ordering and setting."""
    for ordering, (layout, labels, keep, drop_last, processes) in itertools.product(orderings, SETTINGS):
        for route in ("given", "remembered"):
            if route == "remembered" and processes > 1:
                continue
            settings = {
                "ordering": ordering,
                "layout": layout,
                "labels": LABELS if labels else None,
                "keep": keep,
                "drop_last": drop_last,
                "seed": 5,
            }
            options = [layout, "labels" * labels, f"{keep:g}", "drop_last" * drop_last, f"x{processes}", route]
            yield {"run": f"{ordering} {' '.join(filter(None, options))}", **outcome(settings, processes, route)}


def outcome(settings: dict[str, object], processes: int, route: str) -> dict[str, str]:
    """The hash of all indices and two sums of the weights, or that it is refused."""
    digest, total, turned, are_ones = hashlib.sha256(), 0.0, 0.0, True
    try:
        for rank in range(processes):
            for place, (batch, weights) in enumerate(epochs(settings, processes, rank, route)):
                digest.update(f"{batch}".encode())
                total += float(weights.double().sum())
                turned += float(weights.double().sum()) * (place + 1)
                are_ones &= bool((weights == 1).all())
    except ValueError:
        return {"indices": "refused", "weights": "", "turned": ""}
    sums = {"weights": "", "turned": ""} if are_ones else {"weights": f"{total:.7g}", "turned": f"{turned:.7g}"}
    return {"indices": digest.hexdigest()[:8], **sums}


def epochs(
    settings: dict[str, object], processes: int, rank: int, route: str
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Every batch with its weights."""
    sampler = go.OrderedSampler(NUM_EXAMPLES, BATCH_SIZE, num_replicas=processes, rank=rank, **settings)  # type: ignore[arg-type]
    learns = isinstance(settings["ordering"], go.GradientBalancing)
    for epoch in range(EPOCHS):
        scores = scores_of(epoch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler.set_epoch(epoch, scores=scores if route == "given" else None)
            for batch in BatchSampler(sampler, sampler.loader_batch_size, drop_last=False):
                yield batch, sampler.weights
                gradients = torch.stack([scores[batch], scores[batch].flip(0)], 1) if learns else None
                sampler.step(scores[batch] if route == "remembered" else None, gradients=gradients)


def main() -> None:
    """Write them down."""
    written = list(rows())
    with PATH.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(written[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(written)
    print(f"{len(written)} runs, {sum(row['indices'] == 'refused' for row in written)} of them refused")  # noqa: T201


if __name__ == "__main__":
    main()

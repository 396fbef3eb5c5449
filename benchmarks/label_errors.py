"""How many wrong labels `go.data_report` finds, next to the final loss and to cleanlab.

Fashion-MNIST with a fifth of its labels replaced by another class, the paper's 2-layer network, ten epochs of random
reshuffling. `data_report` suspects what the history of this one training says. Ranking by the loss after it is free,
too; it is given the number of suspects, since it has no bound of its own. cleanlab sees the probabilities that networks
give to examples they were not trained on, five folds of the same training, once with the selection that it makes by
itself and once as its ranking with the same number. Average precision judges each ranking as a whole.

    python benchmarks/label_errors.py --data DIR        # writes results/label_errors.csv; needs cleanlab
"""

import argparse
import csv
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder_lab.data import load
from gradorder_lab.models import mlp

EPOCHS, BATCH_SIZE, FOLDS = 10, 128, 5
WRONG = 0.2
RESULTS = Path(__file__).resolve().parent.parent / "results" / "label_errors.csv"


@dataclass(frozen=True)
class Task:
    """Images with some wrong labels."""

    inputs: torch.Tensor
    labels: torch.Tensor
    is_wrong: torch.Tensor
    seed: int

    @classmethod
    def made(cls, inputs: torch.Tensor, labels: torch.Tensor, seed: int) -> "Task":
        """Each label is wrong with probability `WRONG`: another class, any of them as likely."""
        generator = torch.Generator().manual_seed(seed)
        is_wrong = torch.rand(len(labels), generator=generator) < WRONG
        shift = torch.randint(1, 10, (len(labels),), generator=generator)
        return cls(inputs, torch.where(is_wrong, (labels + shift) % 10, labels), is_wrong, seed)

    def part(self, chosen: torch.Tensor) -> "Task":
        """Some of the examples."""
        return Task(self.inputs[chosen], self.labels[chosen], self.is_wrong[chosen], self.seed)


@dataclass(frozen=True)
class Row:
    """What one method found on one seed."""

    method: str
    seed: int
    num_wrong: int
    num_suspects: int
    precision: float
    recall: float
    f1: float
    average_precision: float
    trainings: int


def trained(task: Task) -> tuple[nn.Module, go.OrderedSampler]:
    """A network, and the sampler that has seen its training."""
    torch.manual_seed(task.seed)
    model = mlp()
    sampler = go.OrderedSampler(len(task.labels), BATCH_SIZE, ordering=go.Shuffled(), seed=task.seed)
    sampler.record_history()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, sampler.num_steps(0, EPOCHS))
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for batch in torch.tensor(list(sampler)).split(BATCH_SIZE):
            logits = model(task.inputs[batch])
            losses = F.cross_entropy(logits, task.labels[batch], reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            schedule.step()
            sampler.step(losses.detach(), margins=go.margins(logits.detach(), task.labels[batch]))
    return model, sampler


@torch.no_grad()
def logits_of(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """In parts, for the memory's sake."""
    model.eval()
    return torch.cat([model(part) for part in inputs.split(4096)])


def held_out_probabilities(task: Task) -> torch.Tensor:
    """Of every example, by a network that was trained without it."""
    generator = torch.Generator().manual_seed(task.seed)
    folds = torch.randperm(len(task.labels), generator=generator).chunk(FOLDS)
    probabilities = torch.empty(len(task.labels), 10)
    for fold in folds:
        is_left = torch.ones(len(task.labels), dtype=torch.bool)
        is_left[fold] = False
        model, _ = trained(task.part(is_left.nonzero().flatten()))
        probabilities[fold] = logits_of(model, task.inputs[fold]).softmax(1)
    return probabilities


def judged(method: str, task: Task, suspicion: torch.Tensor, suspects: torch.Tensor, trainings: int) -> Row:
    """A method's suspects, and its ranking of all examples."""
    num_wrong, num_right = int(task.is_wrong.sum()), int(task.is_wrong[suspects].sum())
    precision, recall = num_right / max(1, len(suspects)), num_right / num_wrong
    found = task.is_wrong[suspicion.argsort(descending=True, stable=True)].double()
    average = float((found.cumsum(0) / torch.arange(1, len(found) + 1) * found).sum() / num_wrong)
    f1 = 2 * num_right / (len(suspects) + num_wrong)
    return Row(
        method,
        task.seed,
        num_wrong,
        num_suspects=len(suspects),
        precision=round(precision, 4),
        recall=round(recall, 4),
        f1=round(f1, 4),
        average_precision=round(average, 4),
        trainings=trainings,
    )


def compared(task: Task) -> list[Row]:
    """All methods on one task."""
    model, sampler = trained(task)
    report = go.data_report(sampler, labels=task.labels)
    as_many = len(report.suspects)
    final = F.cross_entropy(logits_of(model, task.inputs), task.labels, reduction="none")
    probabilities, labels = held_out_probabilities(task).numpy(), task.labels.numpy()
    by_cleanlab = torch.from_numpy(find_label_issues(labels, probabilities, n_jobs=1).nonzero()[0])
    quality = torch.from_numpy(np.asarray(get_label_quality_scores(labels, probabilities)))
    area = -report.history.area_under_margin
    return [
        judged("data_report", task, report.history.mean_loss, report.suspects, 1),
        judged("area under the margin, as many", task, area, area.topk(as_many).indices, 1),
        judged("final loss, as many", task, final, final.topk(as_many).indices, 1),
        judged("cleanlab", task, -quality, by_cleanlab, FOLDS),
        judged("cleanlab, as many", task, -quality, (-quality).topk(as_many).indices, FOLDS),
    ]


def main() -> None:
    """Write the rows seed by seed, so that a run that is stopped leaves what it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="directory with Fashion-MNIST's own files")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--examples", type=int, default=60_000, help="the first so many")
    arguments = parser.parse_args()
    train, _ = load("fashion-mnist", data_dir=arguments.data)
    chosen = range(min(arguments.examples, len(train)))
    inputs, labels = train.batch(list(chosen))
    rows: list[Row] = []
    for seed in range(arguments.seeds):
        rows += compared(Task.made(inputs.flatten(1), labels, seed))
        with RESULTS.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(asdict(rows[0])), lineterminator="\n")
            writer.writeheader()
            writer.writerows(map(asdict, rows))
        for row in rows[-5:]:
            numbers = (row.precision, row.recall, row.f1, row.average_precision)
            print(f"seed {seed}  {row.method:32}", *(f"{number:.3f}" for number in numbers))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()

"""The training of ordered_torch.py with transformers.Trainer, by `python` or by `torchrun --nproc-per-node=2`."""

import tempfile
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, TensorDataset
from transformers import TrainerCallback, TrainingArguments

import gradorder as go
from gradorder.integrations.transformers import OrderedTrainer


def rings(num_examples: int, seed: int) -> TensorDataset:
    """Points of the plane in four noisy rings: most are easy, those between two rings are hard."""
    generator = torch.Generator().manual_seed(seed)
    ring = torch.randint(4, (num_examples,), generator=generator)
    radius = 1 + ring + 0.25 * torch.randn(num_examples, generator=generator)
    angle = 2 * torch.pi * torch.rand(num_examples, generator=generator)
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return TensorDataset(points, ring)


class Examples(Dataset[dict[str, torch.Tensor]]):
    """A dict for each example, as Trainer wants it."""

    def __init__(self, pairs: TensorDataset) -> None:
        self.points, self.labels = pairs.tensors

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"points": self.points[index], "labels": self.labels[index]}


class Classifier(nn.Module):
    """Tells points by their ring."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The mean loss, and the logits."""
        logits = self.model(points)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def losses(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> torch.Tensor:
    """What is remembered of a training step."""
    return F.cross_entropy(outputs["logits"], inputs["labels"], reduction="none")


class Progress(TrainerCallback):
    """Says how it goes."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier
        self.accuracy = 0.0

    def on_epoch_end(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        """After each epoch."""
        del control
        inputs, targets = rings(1000, seed=2).tensors
        self.accuracy = (self.classifier.model(inputs).argmax(1) == targets).double().mean().item()
        if args.process_index == 0:
            print(f"{state.global_step} steps, test accuracy {self.accuracy:.3f}")


def main(epochs: int = 10) -> float:
    """Train and return the test accuracy."""
    torch.manual_seed(0)
    classifier = Classifier()
    progress = Progress(classifier)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder,
            num_train_epochs=epochs,
            learning_rate=0.03,
            lr_scheduler_type="cosine",
            optim="sgd",
            optim_args="momentum=0.9",
            max_grad_norm=0.0,
            seed=0,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        args.per_device_train_batch_size = 64 // args.world_size
        OrderedTrainer(
            classifier,
            args,
            train_dataset=Examples(rings(4000, seed=1)),
            callbacks=[progress],
            order=partial(go.recommended, epochs=epochs),
            record=losses,
        ).train()
    return progress.accuracy


if __name__ == "__main__":
    main()

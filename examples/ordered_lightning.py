"""The training of ordered_torch.py with Lightning's Trainer, by `python` or by `torchrun --nproc-per-node=2`."""

import os
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import gradorder as go
from gradorder.integrations.lightning import OrderedTraining, sampler_of


def rings(num_examples: int, seed: int) -> TensorDataset:
    """Points of the plane in four noisy rings: most are easy, those between two rings are hard."""
    generator = torch.Generator().manual_seed(seed)
    ring = torch.randint(4, (num_examples,), generator=generator)
    radius = 1 + ring + 0.25 * torch.randn(num_examples, generator=generator)
    angle = 2 * torch.pi * torch.rand(num_examples, generator=generator)
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return TensorDataset(points, ring)


class Classifier(LightningModule):
    """Tells points by their ring."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self.epochs = epochs
        self.model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
        self.train_set, self.test_set = rings(4000, seed=1), rings(1000, seed=2)
        self.num_trained = 0

    def train_dataloader(self) -> DataLoader[Any]:
        """The loader, with an order."""
        self.sampler = go.recommended(self.train_set, batch_size=64, epochs=self.epochs)
        return self.sampler.loader(self.train_set)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _index: int) -> dict[str, torch.Tensor]:
        """The loss, and what the sampler remembers."""
        inputs, targets = batch
        losses = F.cross_entropy(self.model(inputs), targets, reduction="none")
        self.num_trained += len(targets)
        return {"loss": losses.mean() * self.sampler.loss_scale, "scores": losses.detach()}

    def on_train_epoch_end(self) -> None:
        """Say how it goes."""
        self.print(
            f"epoch {self.current_epoch}: trained on {self.num_trained} examples, test accuracy {self.accuracy():.3f}"
        )
        self.num_trained = 0

    def accuracy(self) -> float:
        """On the test set."""
        inputs, targets = self.test_set.tensors
        accuracy: float = (self.model(inputs).argmax(1) == targets).double().mean().item()
        return accuracy

    def configure_optimizers(self) -> tuple[list[Any], list[Any]]:
        """The learning rate follows the run's progress."""
        optimizer = torch.optim.SGD(self.parameters(), lr=0.03, momentum=0.9)
        scheduler = go.ProgressLR(optimizer, sampler_of(self.trainer))
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


def main(epochs: int = 10) -> float:
    """Train and return the test accuracy."""
    torch.manual_seed(0)
    classifier = Classifier(epochs)
    trainer = Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        callbacks=[OrderedTraining()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(classifier)
    return classifier.accuracy()


if __name__ == "__main__":
    main()

"""Small models of every kind, each with a batch and its losses."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import gradorder as go


@dataclass
class Case:
    name: str
    model: nn.Module
    batch: Any
    losses: Any = None

    def __str__(self):
        return self.name


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True))

    def forward(self, x):
        return x + self.body(x)


class Tied(nn.Module):
    """A tiny language model whose output weights are its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.norm = nn.LayerNorm(6)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, tokens):
        return self.scale * self.norm(self.embedding(tokens)) @ self.embedding.weight.T


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 5, batch_first=True)
        self.head = nn.Linear(5, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def language_losses(model, batch):
    logits = model(batch["tokens"][:, :-1])
    targets = batch["tokens"][:, 1:]
    return F.cross_entropy(logits.mT, targets, reduction="none").mean(1)


def cases(batch_size=5):
    torch.manual_seed(1)
    labels = torch.arange(batch_size) % 3
    images = torch.randn(batch_size, 2, 6, 6)
    return [
        Case("linear", nn.Linear(4, 3), (torch.randn(batch_size, 4), labels)),
        Case("regression", nn.Linear(4, 1), (torch.randn(batch_size, 4), torch.randn(batch_size)), go.squared_error),
        Case(
            "mlp with dropout and BatchNorm",
            nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)),
            (torch.randn(batch_size, 4), labels),
        ),
        Case(
            "residual network",
            nn.Sequential(nn.Conv2d(2, 4, 3, stride=2), Residual(), nn.Flatten(), nn.Linear(16, 3)),
            (images, labels),
        ),
        Case("segmentation", nn.Conv2d(2, 3, 3, padding="same"), (images, torch.randint(3, (batch_size, 6, 6)))),
        Case("tied language model", Tied(), {"tokens": torch.randint(11, (batch_size, 7))}, language_losses),
        Case("LSTM", Recurrent(), (torch.randn(batch_size, 6, 3), labels)),
        Case("float64", nn.Linear(4, 3).double(), (torch.randn(batch_size, 4).double(), labels)),
    ]

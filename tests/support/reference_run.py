"""One small training run in plain torch on one process: what every framework on any number of processes must do."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import gradorder as go

SIZE, BATCH, EPOCHS = 23, 4, 4  # the last batch of a complete epoch has 3 examples: uneven on two processes
SETTINGS = {"ordering": go.PlackettLuce(), "keep": 0.6, "start_epoch": 1, "seed": 3}  # 6 steps, then 4 (14 examples)
STEPS = [6, 4, 4, 4]
LR = 0.05


def data():
    """Inputs, targets and the number of the example."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(SIZE, 5, generator=generator, dtype=torch.float64)
    return TensorDataset(inputs, torch.arange(SIZE) % 3, torch.arange(SIZE))


def new_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def losses(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def train(*, rescores):
    """The batches of example numbers with their epochs, and the final weights."""
    dataset, model = data(), new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    sampler = go.OrderedSampler(dataset, BATCH, **SETTINGS)
    loader = DataLoader(dataset, sampler.loader_batch_size, sampler=sampler)
    score = go.GradientNorm(losses)
    batches = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch, scores=(lambda: go.score_dataset(model, dataset, score)) if rescores else None)
        for batch in loader:
            values = losses(model, batch)
            optimizer.zero_grad()
            values.mean().backward()
            optimizer.step()
            batches.append((epoch, batch[2].tolist()))
            sampler.step(None if rescores else values.detach())
    return batches, [parameter.detach() for parameter in model.parameters()]


def put_together(ranks):
    """The global batches out of the slices of all ranks."""
    return [(parts[0][0], sum((batch for _, batch in parts), [])) for parts in zip(*ranks, strict=True)]

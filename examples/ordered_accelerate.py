"""The training of ordered_torch.py with Accelerate, by `python` or by `torchrun --nproc-per-node=2`."""

import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import gradorder as go
from gradorder.integrations.accelerate import ordered_loader


def rings(num_examples: int, seed: int) -> TensorDataset:
    """Points of the plane in four noisy rings: most are easy, those between two rings are hard."""
    generator = torch.Generator().manual_seed(seed)
    ring = torch.randint(4, (num_examples,), generator=generator)
    radius = 1 + ring + 0.25 * torch.randn(num_examples, generator=generator)
    angle = 2 * torch.pi * torch.rand(num_examples, generator=generator)
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return TensorDataset(points, ring)


def main(epochs: int = 10) -> float:
    """Train and return the test accuracy."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    train, test = rings(4000, seed=1), rings(1000, seed=2)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)

    sampler = go.recommended(train, batch_size=64, epochs=epochs)
    loader = ordered_loader(accelerator, train, sampler)
    scheduler = go.ProgressLR(optimizer, sampler)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    for epoch in sampler.run():
        num_trained = 0
        for inputs, targets in loader:
            losses = F.cross_entropy(model(inputs), targets, reduction="none")
            optimizer.zero_grad()
            accelerator.backward(losses.mean() * sampler.loss_scale)
            optimizer.step()
            sampler.step(losses.detach())
            scheduler.step()
            num_trained += len(targets)
        inputs, targets = test.tensors
        accuracy: float = (model(inputs).argmax(1) == targets).double().mean().item()
        accelerator.print(f"epoch {epoch}: trained on {num_trained} examples, test accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()

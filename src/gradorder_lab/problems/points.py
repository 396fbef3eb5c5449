"""The paper's synthetic problem: 32 points in the plane, a quartic and a quadratic pull towards each.

f_i(x) = ||x - x_i||_4^4 + ||x - x_i||_2^2, with x_i and the start uniform in [-10, 10]^2.
"""

import torch
from torch import nn
from torch.utils.data import TensorDataset

from gradorder.batches import Batch
from gradorder_lab.tasks import Task

NUM_POINTS = 32
_NEWTON_STEPS = 100


class Point(nn.Module):
    """The iterate x as a model: its output is x itself."""

    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        self.x = nn.Parameter(start.clone())

    def forward(self) -> torch.Tensor:
        """The current point."""
        return self.x


def losses(model: nn.Module, batch: Batch) -> torch.Tensor:
    """f_i at the current point, for the points of a batch."""
    (points,) = batch
    differences: torch.Tensor = model() - points
    return (differences**4 + differences**2).sum(1)


def task(seed: int) -> Task:
    """The problem of this seed; its metric is F - F*, the mean loss above the smallest possible."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(NUM_POINTS, 2, generator=generator, dtype=torch.float64) * 20 - 10
    start = torch.rand(2, generator=generator, dtype=torch.float64) * 20 - 10
    smallest = losses(Point(minimiser(points)), (points,)).mean().item()

    @torch.no_grad()
    def excess(model: nn.Module) -> float:
        return losses(model, (points,)).mean().item() - smallest

    return Task(Point(start), TensorDataset(points), losses, excess)


def minimiser(points: torch.Tensor) -> torch.Tensor:
    """The argmin of F by Newton's method: F is a sum over coordinates of strictly convex quartics."""
    x = points.mean(0)
    for _ in range(_NEWTON_STEPS):
        differences = x - points
        slope = (4 * differences**3 + 2 * differences).mean(0)
        curvature = (12 * differences**2 + 2).mean(0)
        x = x - slope / curvature
    return x

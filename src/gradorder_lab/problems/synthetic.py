"""The paper's synthetic problem: 32 points in the plane, a quartic and a quadratic pull towards each.

f_i(x) = ||x - x_i||_4^4 + ||x - x_i||_2^2, with x_i and the start uniform in [-10, 10]^2. `far` has another pull and
starts at (-9, -9).
"""

import numpy as np
import torch

from gradorder_lab.problems import compiled
from gradorder_lab.problems.problem import ConvexProblem
from gradorder_lab.runs.recipe import Array

NUM_POINTS = 32
STEP_SIZE = 1e-4


def near(seed: int) -> ConvexProblem:
    """The problem of this seed."""
    points, start = _points_and_start(seed)
    return _pulled_to(points, start, compiled.BOTH, strong_convexity=2.0)


def far(seed: int) -> ConvexProblem:
    """Far from the optimum; the pull is quartic where the iterate's coordinate is negative, else quadratic."""
    return _pulled_to(_points_and_start(seed)[0], np.array([-9.0, -9.0]), compiled.BY_ITERATE)


def far_by_data(seed: int) -> ConvexProblem:
    """The second reading of `far`: quartic where the example's coordinate is negative."""
    return _pulled_to(_points_and_start(seed)[0], np.array([-9.0, -9.0]), compiled.BY_DATA)


def _points_and_start(seed: int) -> tuple[Array, Array]:
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(NUM_POINTS, 2, generator=generator, dtype=torch.float64) * 20 - 10
    start = torch.rand(2, generator=generator, dtype=torch.float64) * 20 - 10
    return points.numpy(), start.numpy()


def _pulled_to(points: Array, start: Array, pull: int, strong_convexity: float = 0.0) -> ConvexProblem:
    directions = np.broadcast_to(np.eye(2), (NUM_POINTS, 2, 2)).copy()
    return ConvexProblem(directions, points, start, pull, strong_convexity)

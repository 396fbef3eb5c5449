"""The convex problems of the paper, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from gradorder_lab.problems import regression, synthetic
from gradorder_lab.problems.problem import ConvexProblem


@dataclass(frozen=True)
class ProblemKind:
    """A problem, and the paper's (or, for the scaled ones, our) first step size for it."""

    of_seed: Callable[[int], ConvexProblem]
    step_size: float


PROBLEMS: Mapping[str, ProblemKind] = {
    "synthetic": ProblemKind(synthetic.near, synthetic.STEP_SIZE),
    "far": ProblemKind(synthetic.far, synthetic.STEP_SIZE),
    "far by data": ProblemKind(synthetic.far_by_data, synthetic.STEP_SIZE),
    "iris literal": ProblemKind(regression.literal(regression.iris), regression.LITERAL_STEP_SIZE),
    "iris scaled": ProblemKind(regression.scaled(regression.iris), 1e-3),
    "boston literal": ProblemKind(regression.literal(regression.boston), regression.LITERAL_STEP_SIZE),
    "boston scaled": ProblemKind(regression.scaled(regression.boston), 5e-5),
}


@cache
def problem_of(name: str, seed: int) -> ConvexProblem:
    """Built once for all recipes of a seed."""
    return PROBLEMS[name].of_seed(seed)

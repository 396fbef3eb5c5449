"""The bounds of Theorems 1 to 4 on the paper's convex problems, order by order.

One epoch for each seed, schedule and order, from the problem's own start ("far") and after 15 random epochs at the
schedule's step sizes ("near"). Every number is a median over the seeds, or a share of them. No time is measured: the
files are the same on every machine up to rounding.

    python benchmarks/bounds.py             # writes results/bounds.csv and results/bounds_sign.csv
"""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_iris

from gradorder_lab import theory

RESULTS = Path(__file__).resolve().parent.parent / "results"
NUM_SEEDS = 100
WARM_UP_EPOCHS = 15
NEWTON_STEPS = 60
DIGITS = 3

Array = NDArray[np.float64]
Order = NDArray[np.integer[Any]]
Row = dict[str, Any]

SCHEDULES: dict[str, Callable[[Array, int], Array]] = {
    "a": lambda t, n: np.ones_like(t),  # noqa: ARG005 - as the others
    "a/(1+t)": lambda t, n: 1 / (1 + t),  # noqa: ARG005
    "a/sqrt(1+t)": lambda t, n: 1 / np.sqrt(1 + t),  # noqa: ARG005
    "a/(1+t/n)": lambda t, n: 1 / (1 + t / n),
}


# The problems -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """f_i as a quartic plus a quadratic of what `errors` gives, summed over its last axis."""

    name: str
    inputs: Array
    """A_i: the errors are A_i x - b_i, shape (n, e, d)."""
    targets: Array
    """b_i, shape (n, e)."""
    start: Array
    first_step: float
    strong_convexity: float

    def errors(self, x: Array) -> Array:
        """A_i x - b_i, shape (n, e)."""
        return np.asarray(self.inputs @ x - self.targets)

    def losses(self, x: Array) -> Array:
        """Shape (n,)."""
        return np.asarray((self.errors(x) ** 4 + self.errors(x) ** 2).sum(1))

    def gradient(self, x: Array, example: int) -> Array:
        """Shape (d,)."""
        errors = self.inputs[example] @ x - self.targets[example]
        return np.asarray(self.inputs[example].T @ (4 * errors**3 + 2 * errors))

    def gradients(self, x: Array) -> Array:
        """Shape (n, d)."""
        errors = self.errors(x)
        return np.asarray(np.einsum("ned,ne->nd", self.inputs, 4 * errors**3 + 2 * errors))

    def hessians(self, x: Array) -> Array:
        """Shape (n, d, d)."""
        bends = 12 * self.errors(x) ** 2 + 2
        return np.asarray(np.einsum("nea,ne,neb->nab", self.inputs, bends, self.inputs))

    def optimum(self) -> Array:
        """The minimiser of the mean, by Newton's method from 0."""
        x = np.zeros(self.inputs.shape[2])
        for _ in range(NEWTON_STEPS):
            x = x - np.linalg.solve(self.hessians(x).sum(0), self.gradients(x).sum(0))
        return x


def synthetic(seed: int) -> Problem:
    """32 points and the start uniform in [-10, 10]^2."""
    generator = np.random.default_rng(seed)
    points, start = generator.uniform(-10, 10, (32, 2)), generator.uniform(-10, 10, 2)
    return Problem("synthetic", np.tile(np.eye(2), (32, 1, 1)), points, start, 1e-4, 2.0)


def iris(seed: int) -> Problem:
    """Standardised; the start is drawn around 0, so that the seeds differ. Each Hessian has rank one: m_i = 0."""
    inputs, targets = load_iris(return_X_y=True)
    inputs, targets = (inputs - inputs.mean(0)) / inputs.std(0), (targets - targets.mean()) / targets.std()
    start = np.random.default_rng(seed).normal(0, 0.5, 5)
    return Problem("iris", _with_bias(inputs), targets[:, None], start, 1e-4, 0.0)


def iris_literal(seed: int) -> Problem:
    """As the paper has it: raw features, from 0, step size 6e-4 with gradients times 1e-10. Seeds shuffle only."""
    del seed
    inputs, targets = load_iris(return_X_y=True)
    return Problem("iris literal", _with_bias(inputs), targets[:, None] * 1.0, np.zeros(5), 6e-14, 0.0)


def _with_bias(inputs: Array) -> Array:
    return np.hstack([inputs, np.ones((len(inputs), 1))])[:, None, :]


PROBLEMS: list[Callable[[int], Problem]] = [synthetic, iris, iris_literal]


# The epochs -------------------------------------------------------------------------------------------------------


def orders(problem: Problem, start: Array, optimum: Array, generator: np.random.Generator) -> dict[str, Order]:
    """Decreasing, increasing, random; and by f_i(x_k) - f_i(x*), which no one knows before the end."""
    norms = np.linalg.norm(problem.gradients(start), axis=1)
    descending = np.argsort(-norms, kind="stable")
    return {
        "descending": descending,
        "ascending": descending[::-1],
        "random": generator.permutation(len(norms)),
        "by loss gap": np.argsort(problem.losses(optimum) - problem.losses(start), kind="stable"),
    }


def walked(problem: Problem, start: Array, order: Iterable[int], steps: Array) -> Array:
    """Where an epoch ends."""
    for example, step in zip(order, steps, strict=True):
        start = start - step * problem.gradient(start, example)
    return start


def starts(problem: Problem, schedule: str, generator: np.random.Generator) -> dict[str, tuple[Array, Array]]:
    """Where the epoch begins and its step sizes, far and near."""
    n, point = len(problem.targets), problem.start

    def steps(epoch: int) -> Array:
        return problem.first_step * SCHEDULES[schedule](np.arange(epoch * n, (epoch + 1) * n, dtype=np.float64), n)

    for epoch in range(WARM_UP_EPOCHS):
        point = walked(problem, point, generator.permutation(n), steps(epoch))
    return {"far": (problem.start, steps(0)), "near": (point, steps(WARM_UP_EPOCHS))}


def epochs(make: Callable[[int], Problem], schedule: str, seed: int) -> dict[str, dict[str, theory.RecordedEpoch]]:
    """By start and order."""
    problem, generator = make(seed), np.random.default_rng([seed, 1])
    optimum = problem.optimum()
    return {
        where: {
            name: theory.record_epoch(
                problem.losses,
                problem.gradient,
                start=start,
                optimum=optimum,
                order=order,
                step_sizes=steps,
                strong_convexity=problem.strong_convexity,
            )
            for name, order in orders(problem, start, optimum, generator).items()
        }
        for where, (start, steps) in starts(problem, schedule, generator).items()
    }


# The tables -------------------------------------------------------------------------------------------------------


def numbers(epoch: theory.RecordedEpoch) -> Row:
    """Every term of one epoch."""
    bound, condition = theory.epoch_bound(epoch), theory.step_condition(epoch)
    published, corrected, tight = bound.published, bound.corrected, bound.tight
    return {
        "theorem": bound.theorem,
        "distance": published.distance,
        "measured": bound.measured,
        "first_order_sum": bound.first_order_sum,
        "first_order": published.first_order,
        "pair_sum": bound.pair_sum,
        "square_sum": bound.square_sum,
        "epsilon": bound.epsilon,
        "published_second_order": published.second_order,
        "published_strong_convexity": published.strong_convexity,
        "published_epsilon_term": published.epsilon_term,
        "published": published.right_hand_side,
        "corrected_second_order": corrected.second_order,
        "corrected_strong_convexity": corrected.strong_convexity,
        "corrected_epsilon_term": corrected.epsilon_term,
        "corrected": corrected.right_hand_side,
        "tight_second_order": tight.second_order,
        "tight_strong_convexity": tight.strong_convexity,
        "tight_epsilon_term": tight.epsilon_term,
        "tight": tight.right_hand_side,
        "epsilon_over_first_order": tight.epsilon_term / published.first_order,
        "worst_epsilon_over_first_order": corrected.epsilon_term / published.first_order,
        "rounding": published.rounding,
        "premise_share": bound.premise_share,
        "smoothness_seen": condition.smoothness,
        "gradient_bound": condition.gradient_bound,
        "step_over_limit": condition.step_size / condition.limit,
        "step_over_limit_without_g": condition.step_size / condition.limit_without_g,
        "step_over_limit_of_smoothness": condition.step_size / condition.limit_of_smoothness,
    }


def shares(epoch: theory.RecordedEpoch) -> Row:
    """What is counted over the seeds."""
    bound, condition = theory.epoch_bound(epoch), theory.step_condition(epoch)
    return {
        "published_holds": bound.published.holds,
        "corrected_holds": bound.corrected.holds,
        "tight_holds": bound.tight.holds,
        "step_condition_met": condition.met,
    }


RANKED = ["measured", "published", "corrected", "tight"]


def below_ascending(epoch: Row, ascending: Row) -> Row:
    """1 where a bound, or what was measured, is smaller than for the ascending order; 1/2 if rounding hides it."""
    differences = {name: epoch[name] - ascending[name] for name in RANKED}
    blur = max(epoch["rounding"], ascending["rounding"])
    return {f"{name}_below_ascending": 0.5 if abs(by) <= blur else float(by < 0) for name, by in differences.items()}


def table(make: Callable[[int], Problem], schedule: str) -> Iterable[Row]:
    """One row for each start and order."""
    recorded = [epochs(make, schedule, seed) for seed in range(NUM_SEEDS)]
    for where, by_order in recorded[0].items():
        found = {order: [numbers(seed[where][order]) for seed in recorded] for order in by_order}
        for order, rows in found.items():
            counted = [
                shares(seed[where][order]) | below_ascending(row, ascending)
                for seed, row, ascending in zip(recorded, rows, found["ascending"], strict=True)
            ]
            yield {
                "problem": make(0).name,
                "schedule": schedule,
                "start": where,
                "order": order,
                "seeds": NUM_SEEDS,
                **{name: shown(np.median([row[name] for row in rows])) for name in rows[0]},
                **{name: shown(np.mean([row[name] for row in counted])) for name in counted[0]},
            }


def shown(value: Any) -> str:  # noqa: ANN401 - a number of numpy's
    """Three significant digits: more would depend on the machine."""
    return f"{float(value):.{DIGITS}g}"


# The sign at a constant step size -----------------------------------------------------------------------------------

SIGN_STARTS = {"far": 0, "after 1 epoch": 1, "after 3 epochs": 3, "after 15 epochs": 15}
SIGN_STEPS = [1e-6, 1e-5, 1e-4]


def sign(seed: int, num_warm_up: int, step: float) -> Row:
    """Descending against ascending for one epoch from the same start of the synthetic problem."""
    problem, generator = synthetic(seed), np.random.default_rng([seed, 2])
    start, optimum, n = problem.start, problem.optimum(), len(problem.targets)
    for _ in range(num_warm_up):
        start = walked(problem, start, generator.permutation(n), np.full(n, problem.first_step))
    by_name = orders(problem, start, optimum, generator)
    descending, ascending = (
        outcome(problem, start, optimum, by_name[name], step) for name in ("descending", "ascending")
    )
    worse = {name: bool(descending[name] > ascending[name]) for name in descending}
    return {
        "pair_sum_larger": worse["pair_sum"],
        "distance_larger": worse["measured"],
        "loss_larger": worse["loss"],
        "expansion_larger": worse["expansion"],
        "expansion_agrees": worse["expansion"] == worse["measured"],
        "full_expansion_agrees": worse["full_expansion"] == worse["measured"],
    }


def outcome(problem: Problem, start: Array, optimum: Array, order: Order, step: float) -> dict[str, float]:
    """What was measured after the epoch, and what the expansions in the step size say it is."""
    epoch = theory.record_epoch(
        problem.losses, problem.gradient, start=start, optimum=optimum, order=order, step_sizes=step
    )
    bound = theory.epoch_bound(epoch)
    shift = theory.second_order_shift(problem.hessians(start)[order], epoch.start_gradients)
    predicted = start - step * epoch.start_gradients.sum(0) + step**2 * shift
    return {
        "pair_sum": bound.pair_sum,
        "measured": bound.measured,
        "loss": float(problem.losses(epoch.end).mean()),
        "expansion": float((start - optimum) @ shift),
        "full_expansion": float(((predicted - optimum) ** 2).sum()),
    }


def sign_table() -> Iterable[Row]:
    """One row for each start and step size: shares of the seeds."""
    for where, num_warm_up in SIGN_STARTS.items():
        for step in SIGN_STEPS:
            rows = [sign(seed, num_warm_up, step) for seed in range(NUM_SEEDS)]
            yield {
                "start": where,
                "step_size": step,
                "seeds": NUM_SEEDS,
                **{name: shown(np.mean([row[name] for row in rows])) for name in rows[0]},
            }


def write(name: str, rows: list[Row]) -> None:
    """A table as CSV."""
    with (RESULTS / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Both tables."""
    write("bounds.csv", [row for make in PROBLEMS for schedule in SCHEDULES for row in table(make, schedule)])
    write("bounds_sign.csv", list(sign_table()))


if __name__ == "__main__":
    main()

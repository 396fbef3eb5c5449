"""Which method reaches the accuracy of tuned random reshuffling soonest? The whole field on the same tasks.

For every task and method: the step size is searched on a held-out tenth of the training set, the same grid for all;
then every budget (a share of plain training's cost) is run with paired seeds, SGD with momentum, half a cosine over
the steps. The target is the mean test accuracy of random reshuffling at the full budget less its noise, and its own
time is its cheapest budget that reaches that. See `gradorder_lab.benchmark.contest`.

One thread per run. Runs are kept as they finish and the same command goes on where it was stopped.

    python benchmarks/time_to_target.py --data DIR               # all tasks; hours on two cores
    python benchmarks/time_to_target.py "terrain, 2-layer"       # some of them

Writes results/time_to_target.csv, one line per task and method.
"""

import argparse
import csv
import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from gradorder_lab.benchmark.contest import Contest, Row, Standings
from gradorder_lab.benchmark.methods import CORE, METHODS, RANDOM_BALANCED
from gradorder_lab.benchmark.running import compared
from gradorder_lab.benchmark.task import Task
from gradorder_lab.runs import origin
from gradorder_lab.show.standings import show_standings

RESULTS = Path(__file__).resolve().parent.parent / "results" / "time_to_target.csv"

TWO_LAYER = {name: Task(f"{name}, 2-layer", name, "2-layer", epochs=10) for name in ("mnist", "fashion-mnist")}
SEVEN_LAYER = {name: Task(f"{name}, 7-layer", name, "7-layer", epochs=6) for name in ("mnist", "fashion-mnist")}
TERRAIN = Task("terrain, 2-layer", "terrain", "2-layer", epochs=10, step_sizes=(0.05, 0.1, 0.2, 0.4))
CIFAR = Task(
    "cifar10 (5,000), resnet20",
    "cifar10",
    "resnet20",
    epochs=6,
    batch_size=64,
    step_sizes=(0.01, 0.02, 0.05),
    num_train=5000,
    weight_decay=5e-4,
)
TEXT = Task("snippets, transformer", "snippets", "transformer", epochs=10, batch_size=64, step_sizes=(0.05, 0.1, 0.2))

NAMES = {
    "processor_seconds": "time",
    "seconds": "wall_time",
    "trained": "example_gradients",
    "forward": "forward_passes",
}
ALL = tuple(METHODS)
FINE = (0.4, 0.5, 0.6, 0.8, 1.0)
COARSE = (0.5, 0.6, 0.8, 1.0)
SEEDS, MORE_SEEDS = 5, 10
"""More on the small tasks for the methods that run on every task: they cost little, and five runs of random
reshuffling can be lucky by more than their own noise."""
SEARCH_SEEDS = 3
"""One seed's noise is as large as the difference between two neighbouring step sizes."""


def hard(task: Task) -> Iterator[Task]:
    """What breaks methods that prefer hard examples: wrong labels, rare classes, too large a step."""
    yield replace(task, name=f"{task.name}, 20% wrong labels", wrong_labels=0.2)
    yield replace(task, name=f"{task.name}, rare classes", rarest=0.02)
    yield replace(task, name=f"{task.name}, step too large", step_sizes=(0.2,))  # four times what the search finds


def plans() -> list[Contest]:
    """Cheapest first."""
    chosen: list[tuple[Task, tuple[str, ...], tuple[float, ...], int]]
    chosen = [(task, ALL, FINE, MORE_SEEDS) for task in (TERRAIN, *TWO_LAYER.values())]
    chosen += [(task, CORE, FINE, MORE_SEEDS) for task in hard(TWO_LAYER["fashion-mnist"])]
    chosen += [(task, CORE, COARSE, SEEDS) for task in SEVEN_LAYER.values()]
    chosen += [(TEXT, (*CORE, RANDOM_BALANCED), COARSE, SEEDS)]
    chosen += [(CIFAR, CORE, COARSE, SEEDS)]
    return [
        Contest(task, methods, budgets, seeds=SEEDS, core_seeds=core_seeds, search_seeds=SEARCH_SEEDS)
        for task, methods, budgets, core_seeds in chosen
    ]


def lines(comparison: Standings) -> Iterator[dict[str, str]]:
    """The comparison as lines of a table."""
    for row in comparison.rows:
        yield {
            "task": comparison.task.name,
            "method": row.method,
            "target": f"{comparison.target:.3f}",
            "noise": f"{comparison.noise:.3f}",
            "step_size": f"{row.step_size:g}",
            "budget": "" if row.budget is None else f"{row.budget:g}",
            **_ratios(row),
            "accuracy": f"{row.accuracy:.3f}",
            **_interval("accuracy_minus_random", row.difference),
            **_interval("accuracy_minus_random_at_equal_time", row.equal_time),
            "low_budget": f"{comparison.low_budget:g}",
            **_interval("accuracy_minus_random_at_low_budget", row.low_budget),
        }


def _ratios(row: Row) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, shown in NAMES.items():
        ratio = None if row.ratios is None else row.ratios[name]
        found |= _interval(shown, None if ratio is None else (ratio.mean, ratio.low, ratio.high))
    return found


def _interval(name: str, values: tuple[float, float, float] | None) -> dict[str, str]:
    """Nothing where the target was not reached."""
    told = ("", "", "") if values is None else (f"{value:.4g}" for value in values)
    return dict(zip((f"{name}_mean", f"{name}_low", f"{name}_high"), told, strict=True))


def main() -> None:
    """Run, print, write."""
    known = {plan.task.name: plan for plan in plans()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="; ".join(known))
    parser.add_argument("--data", type=Path, help="directory with the data sets' original files")
    parser.add_argument("--out", type=Path, default=Path("runs/time_to_target"), help="where finished runs are kept")
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    if unknown := set(chosen.tasks) - set(known):
        parser.error(f"unknown tasks: {', '.join(sorted(unknown))}")
    console = Console(width=160)
    facts = origin.facts()
    told = {"machine": str(facts["machine"]), "torch": str(facts["torch"]), "python": platform.python_version()}
    for name in chosen.tasks or known:
        comparison = compared(known[name], chosen.out, jobs=chosen.jobs, data=chosen.data, console=console)
        show_standings(console, comparison)
        write([line | told for line in lines(comparison)])


def write(found: list[dict[str, str]]) -> None:
    """After each task, as all of them take hours; lines of other tasks stay as they are, all in the order of plans."""
    fresh = {line["task"] for line in found}
    places = {plan.task.name: place for place, plan in enumerate(plans())}
    kept: list[dict[str, str]] = []
    if RESULTS.exists():
        with RESULTS.open(newline="") as file:
            kept = [line for line in csv.DictReader(file) if line["task"] not in fresh]
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, found[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(kept + found, key=lambda line: places.get(line["task"], len(places))))


if __name__ == "__main__":
    main()

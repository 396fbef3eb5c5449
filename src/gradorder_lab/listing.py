"""`gradorder list`: the experiments as a table."""

from rich.console import Console
from rich.table import Table

from gradorder_lab.experiment import SIZES, Experiment, Size
from gradorder_lab.experiments import EXPERIMENTS


def show() -> None:
    """Print every experiment with its claims and its number of runs at each size."""
    table = Table(box=None, padding=(0, 1))
    for name in ("experiment", "claims"):
        table.add_column(name, no_wrap=True)
    for size in SIZES:
        table.add_column(size, justify="right", no_wrap=True)
    table.add_column("what")
    for experiment in EXPERIMENTS.values():
        counts = (f"{num_runs(experiment, size):,}" for size in SIZES)
        table.add_row(experiment.name, " ".join(experiment.claim_names), *counts, experiment.title)
    console = Console()
    console.print(table)
    console.print("The numbers are runs at each size: recipes times paired seeds.")


def num_runs(experiment: Experiment, size: Size) -> int:
    """Recipes times paired seeds."""
    return len(experiment.recipes(size)) * experiment.seeds[size]

"""The main job: run every recipe, show a progress bar, print the tables, save the plot and the rows."""

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gradorder_lab.recipe import Recipe
from gradorder_lab.recipes import side_by_side
from gradorder_lab.run import Row, run


def reproduce(out: Path, num_seeds: int) -> None:
    """Run everything and leave `side_by_side.png` and `side_by_side.csv` in `out`."""
    console = Console()
    torch.set_num_threads(1)  # these models are too small to be shared, and one thread gives the same bits anywhere
    rows = run_all(side_by_side.recipes(), num_seeds, console)
    for task in dict.fromkeys(row.task for row in rows):
        console.print(table([row for row in rows if row.task == task]))
    plot, saved = out / "side_by_side.png", out / "side_by_side.csv"
    side_by_side.draw(rows).savefig(plot, dpi=150)
    write_csv(saved, rows)
    console.print(f"Mean ± standard deviation of {num_seeds} seeds, the same data and start for every method.")
    console.print(f"Plot: {plot}", f"Rows: {saved}", sep="\n", soft_wrap=True, highlight=False)


def run_all(recipes: Sequence[Recipe], num_seeds: int, console: Console) -> list[Row]:
    """The rows of every recipe with every seed."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    num_rows = num_seeds * sum(recipe.epochs + 1 for recipe in recipes)
    rows = []
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("epochs", total=num_rows)
        for recipe in recipes:
            for seed in range(num_seeds):
                for row in run(recipe, seed):
                    rows.append(row)
                    progress.advance(bar)
    return rows


def table(rows: Sequence[Row]) -> Table:
    """How each method ended on one task, and what it cost."""
    task, metric = rows[0].task.split(": ")
    shown = Table(title=task, title_justify="left")
    shown.add_column("method", no_wrap=True)
    for name in (metric, "trained on", "scored", "seconds"):
        shown.add_column(name, justify="right")
    for method in dict.fromkeys(row.method for row in rows):
        last = [row for row in rows if row.method == method and row.epoch == max(r.epoch for r in rows)]
        values = [row.metric for row in last]
        spread = f" ± {stdev(values):.2g}" if len(values) > 1 else ""
        shown.add_row(
            method,
            f"{mean(values):.4g}{spread}",
            f"{last[0].examples_trained:,}",
            f"{last[0].examples_scored:,}",
            f"{mean(row.seconds for row in last):.2f}",
        )
    return shown


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """One line per row."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0].as_dict()))
        writer.writeheader()
        writer.writerows(row.as_dict() for row in rows)

"""How much cost does a method save at the accuracy of tuned random reshuffling? The whole field on the same tasks.

For every task and method: the step size is searched on a held-out tenth of the training set, from the same grid for
all, widened where the best is at its edge; then every budget (a share of plain training's cost, cut to whole steps) is
run with paired seeds: SGD with momentum, half a cosine over the steps. Methods of one task and seed take turns in
random order. See `gradorder_lab.benchmark`: contest.py has what is run, curves.py what is made of it.

One thread per run. Runs are kept as they finish, and the same command goes on where it was stopped: what the file of
rows has is not run again.

    python benchmarks/benchmark.py --data DIR                                 # the core methods on all tasks
    python benchmarks/benchmark.py "terrain, 2-layer" --methods all           # every method on some of them
    python benchmarks/benchmark.py --data DIR --search-only                   # step sizes only
    python benchmarks/benchmark.py "terrain, 2-layer" --step-size 0.2         # one step size for all methods

After each task its rows join results/benchmark.parquet. Those of an unfinished one join at any time by
`python -m gradorder_lab.benchmark.rows results/benchmark.parquet runs/benchmark`.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from gradorder_lab.benchmark.contest import Contest, suitable
from gradorder_lab.benchmark.methods import BASELINE, CORE, METHODS
from gradorder_lab.benchmark.rows import join, read_rows
from gradorder_lab.benchmark.running import announcement, compared, plain_seconds
from gradorder_lab.benchmark.standard_tasks import ALL
from gradorder_lab.benchmark.standings import Standings
from gradorder_lab.runs.origin import check_shippable
from gradorder_lab.runs.origin import facts as origin_facts
from gradorder_lab.show.standings import show_standings

RESULTS = Path(__file__).resolve().parent.parent / "results" / "benchmark.parquet"
KNOWN = {task.name: task for task in ALL}


def main() -> None:
    """Say what is to be run and for how long, run it, keep it, print it."""
    chosen = arguments()
    console = Console(width=160)
    check_shippable(origin_facts())  # before hours of work, not after them
    contests = [planned(name, chosen.methods, chosen.seeds, chosen.step_size) for name in chosen.tasks or KNOWN]
    announce(contests, chosen, console)
    for contest in contests:
        known = read_rows(chosen.results) if chosen.results.exists() else []
        settings = {"jobs": chosen.jobs, "data": chosen.data, "console": console, "known": known}
        runs = compared(contest, chosen.out, **settings, search_only=chosen.search_only)
        join(chosen.results, [chosen.out])
        if not chosen.search_only:
            show_standings(console, Standings.of(contest.task.name, contest.task.margin, runs))


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="; ".join(KNOWN).replace("%", "%%"))
    parser.add_argument("--methods", default="core", help="core, all, or names with ; between them")
    parser.add_argument("--seeds", type=int, help="instead of the task's own number")
    parser.add_argument("--step-size", type=float, help="for all methods, instead of a search")
    parser.add_argument("--search-only", action="store_true", help="find the step sizes, and leave it at that")
    parser.add_argument("--data", type=Path, help="directory with the data sets' original files")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"), help="where finished runs are kept")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file that their rows join")
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    if unknown := set(chosen.tasks) - set(KNOWN):
        parser.error(f"unknown tasks: {'; '.join(sorted(unknown))}")
    groups = {"core": CORE, "all": tuple(METHODS)}
    chosen.methods = groups.get(chosen.methods) or tuple(chosen.methods.split(";"))
    if unknown := set(chosen.methods) - set(METHODS):
        parser.error(f"unknown methods: {'; '.join(sorted(unknown))}")
    return chosen


def planned(name: str, methods: tuple[str, ...], seeds: int | None, step_size: float | None = None) -> Contest:
    """One task; random reshuffling is always there, as it sets the target."""
    task = KNOWN[name] if step_size is None else replace(KNOWN[name], step_sizes=(step_size,))
    wanted = dict.fromkeys((BASELINE, *methods))
    return Contest(task, tuple(suitable(wanted, task)), seeds=seeds or task.seeds)


def announce(contests: list[Contest], chosen: argparse.Namespace, console: Console) -> None:
    """Every task with its runs and a guess of the hours, as if nothing of it were there yet."""
    hours = 0.0
    for contest in contests:
        seconds = plain_seconds(contest, chosen.data)
        told, guess = announcement(contest, seconds, jobs=chosen.jobs, search_only=chosen.search_only)
        hours += guess
        console.print(told, highlight=False, soft_wrap=True)
    console.print(f"Together about {hours:.1f} h; methods with passes of their own take longer than counted here.")


if __name__ == "__main__":
    main()

"""What the commands print: the verdicts on one screen, and the list of experiments."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradorder_lab import paper
from gradorder_lab.judge.claims import Claim, Verdict
from gradorder_lab.paper.experiment import Experiment
from gradorder_lab.runs.recipe import SIZES, Size
from gradorder_lab.show.page import ClaimRow, Page

_STYLES = {
    Verdict.REPRODUCED: "green",
    Verdict.PARTLY: "yellow",
    Verdict.NOT_REPRODUCED: "red",
    Verdict.INCONCLUSIVE: "magenta",
    Verdict.NOT_TESTED: "dim",
}


_MARKS = {
    Verdict.REPRODUCED: "✓",
    Verdict.PARTLY: "◐",
    Verdict.NOT_REPRODUCED: "✕",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NOT_TESTED: "–",
}

_BY_CONSTRUCTION = (
    "On convex problems the shipped runs include the seeds run here, and the number of seeds of size mini was chosen "
    "with those runs in view. So agreement is partly by construction."
)


def show(console: Console, page: Page, size: Size) -> None:
    """One screen: every claim here and as shipped, what was not requested, and the answer in three sentences."""
    console.print(verdict_table(page), highlight=False)
    told = ["18/22: the claim holds in 18 of the 22 cells (part x reading) that can say something."]
    if page.has_shipped:
        told.append(_BY_CONSTRUCTION)
    told += _not_requested(page, size)
    for line in (*told, "", *page.answer):
        console.print(line, highlight=False, markup=False, soft_wrap=line.startswith(" "))  # a command stays whole


def verdict_table(page: Page) -> Table:
    """The claims that were run, with count and seeds, and the shipped verdict on the same cells.

    "Agree" counts, of the cells that hold or fail in both, those that do so alike.
    """
    heads = ("here", "seeds", "shipped", "agree") if page.has_shipped else ("verdict", "seeds")
    shown = Table(box=None, padding=(0, 2, 0, 0), title="The claims of the paper", title_justify="left")
    shown.add_column("claim", no_wrap=True)
    shown.add_column("")
    for head in heads:
        shown.add_column(head, no_wrap=True, justify="right" if head == "seeds" else "left")
    for row in page.claims:
        if _is_requested(row.claim, page):
            shown.add_row(*_cells(row)[: 2 + len(heads)])
    return shown


def _cells(row: ClaimRow) -> list[str]:
    claim, found, shipped = row.claim, row.agreement, row.shipped
    seeds = "-".join(str(number) for number in dict.fromkeys(claim.seeds)) if claim.judged else ""
    reduced = " (at reduced size)" if claim.is_reduced and claim.judged else ""
    here = _coloured(claim.verdict) + _counted(claim)
    there = "" if shipped is None else f"[{_STYLES[shipped.verdict]}]{_MARKS[shipped.verdict]}[/]{_counted(shipped)}"
    agree = "" if found is None or not found.decided else f"{found.alike}/{found.decided}"
    style = "red" if found is not None and found.alike < found.decided else "default"
    return [claim.name, escape(claim.brief) + reduced, here, seeds, there, f"[{style}]{agree}[/]"]


def _counted(claim: Claim) -> str:
    count = claim.count
    return f" {count.holds}/{count.judged}" if count.judged else ""


def _is_requested(claim: Claim, page: Page) -> bool:
    """Whether an experiment that tests it has been run."""
    return any(claim.name in one.experiment.claims for one in page.coverage.values() if one.num_run)


def _not_requested(page: Page, size: Size) -> list[str]:
    """What was not run, of that which this size has, and the command for it."""
    names = [name for name, one in page.coverage.items() if not one.num_run and one.experiment.recipes(size)]
    if not names:
        return []
    claims = [row.claim.name for row in page.claims if not _is_requested(row.claim, page)]
    told = f"Not requested: {', '.join(names)}" + (f" (claims {', '.join(claims)})" if claims else "")
    return [f"{told}. To run them:", f"  gradorder reproduce {' '.join(names)} --size {size}"]


def _coloured(verdict: Verdict) -> str:
    return f"[{_STYLES[verdict]}]{_MARKS[verdict]} {verdict}[/]"


# ---- `gradorder list` ----


def show_experiments() -> None:
    """Print every experiment with its claims and its number of runs at each size."""
    table = Table(box=None, padding=(0, 1))
    for name in ("experiment", "claims"):
        table.add_column(name, no_wrap=True)
    for size in SIZES:
        table.add_column(size, justify="right", no_wrap=True)
    table.add_column("what")
    for experiment in paper.EXPERIMENTS.values():
        counts = (f"{num_runs(experiment, size):,}" for size in SIZES)
        table.add_row(experiment.name, " ".join(experiment.claims), *counts, experiment.title)
    console = Console()
    console.print(table)
    console.print("The numbers are runs at each size: recipes times paired seeds.")


def num_runs(experiment: Experiment, size: Size) -> int:
    """Recipes times paired seeds."""
    return len(experiment.recipes(size)) * experiment.seeds[size]

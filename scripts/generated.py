# ruff: noqa: INP001 - a script: run by path
"""Write what README and docs say of the committed results, between `<!-- NAME -->` and `<!-- end -->`.

    python scripts/generated.py

NAME is a function here. `make generated` draws the pictures too.
"""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from gradorder_lab.benchmark.curves import FEWEST
from gradorder_lab.benchmark.rows import BenchmarkRun, read_rows
from gradorder_lab.benchmark.standings import GRADIENTS, Level, Standing, Standings, all_standings, by_saving
from gradorder_lab.benchmark.suites import ALL, TUNED_DATA
from gradorder_lab.judge.claims import Verdict
from gradorder_lab.methods import BASELINE, RECOMMENDED
from gradorder_lab.runs.shipped import read_table
from gradorder_lab.show.page import ClaimRow, Page, page_of
from gradorder_lab.show.standings import difference_text, saving_text, time_text
from gradorder_lab.training.network import CLOCK

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
DOCUMENTS = tuple(ROOT / name for name in ("README.md", "docs/paper.md", "docs/laboratory.md"))

_PART = re.compile(r"(?P<start><!-- (?P<name>[a-z]+) -->\n).*?(?P<end><!-- end -->)", flags=re.DOTALL)


def main() -> None:
    """Write all of them."""
    for path in DOCUMENTS:
        path.write_text(filled(path.read_text()))


def filled(text: str) -> str:
    """The text with every part written anew."""
    return _PART.sub(lambda found: f"{found['start']}\n{PARTS[found['name']]()}\n\n{found['end']}", text)


def promise() -> str:
    """What the default saves and loses, on data that it was tuned on and on other data."""
    groups = {"not used for tuning": False, "used for tuning": True}
    rows = [_promised(name, _group(is_tuned=is_tuned)) for name, is_tuned in groups.items()]
    head = ("data", "tasks with fewer gradients to the accuracy of tuned random reshuffling", "after as many epochs")
    first = "Skip the examples your network already fits, using the per-example losses you already compute."
    last = (
        "Accuracies count within a margin of 0.1 points (0.5 on CIFAR and text). Each 95% interval is of one task: "
        "they are not corrected for being fourteen. If nothing is fitted, the order is random reshuffling's to the bit."
    )
    return f"{first}\n\n{_table(head, rows)}\n\n{_prose(last)}"


def _promised(name: str, found: Mapping[str, tuple[Standings, Standing]]) -> tuple[str, str, str]:
    cheaper = [row.savings[GRADIENTS].share for _, row in found.values() if _is_cheaper(row)]
    shares = f": {min(cheaper):.2f} to {max(cheaper):.2f} of them" if cheaper else ""
    levels = [all_.level(row) for all_, row in found.values()]
    told = ", ".join(f"{level} on {levels.count(level)}" for level in Level if level in levels)
    return f"{name} ({len(found)} tasks)", f"{len(cheaper)} of {len(found)}{shares}", told


def _group(*, is_tuned: bool) -> dict[str, tuple[Standings, Standing]]:
    tuned = {task.name for task in ALL if task.data in TUNED_DATA}
    return {name: found for name, found in _recommended().items() if (name in tuned) == is_tuned}


def caveats() -> str:
    """One line for every task with a caveat: no saving, an accuracy that is not level, more time, a rival."""
    head = ("task", "gradients to target", "accuracy after as many epochs", "also")
    rows = [_caveat(task, all_, row) for task, (all_, row) in _recommended().items() if _has_caveat(all_, row)]
    return _table(head, rows)


def _has_caveat(found: Standings, row: Standing) -> bool:
    return not _is_cheaper(row) or found.level(row) != Level.NOT_WORSE or bool(_remarks(found, row))


def _caveat(task: str, found: Standings, row: Standing) -> tuple[str, ...]:
    saving = "" if _is_cheaper(row) else "no saving beyond noise: "
    level = found.level(row)
    told = "" if level == Level.NOT_WORSE else f"{level}: "
    return (
        _brief(task),
        f"{saving}{saving_text(row.savings[GRADIENTS])}",
        f"{told}{difference_text(row.difference)}",
        "; ".join(_remarks(found, row)),
    )


def _remarks(found: Standings, row: Standing) -> list[str]:
    """More time, another learning rate, and a method that takes fewer gradients."""
    said = []
    time = row.savings[CLOCK]
    if _is_cheaper(row) and time.high >= 1:
        said.append(f"no less time beyond noise: {time_text(row, saving_text(time))}")
    if row.step_size != found.step_size:
        said.append(f"tuning chose learning rate {row.step_size:g}, for random {found.step_size:g}")
    if rival := _rivals().get(found.task):
        said.append(rival)
    return said


def _is_cheaper(row: Standing) -> bool:
    """Beyond noise: of fewer seeds no interval can tell."""
    return row.savings[GRADIENTS].high < 1 and row.num_seeds >= FEWEST


@cache
def _rivals() -> dict[str, str]:
    """Task -> the method of others that takes the fewest gradients, if fewer than ours, by the seeds that all have."""
    said = {}
    for found in all_standings(_on_common_seeds(_rows())):
        ours = found.row(RECOMMENDED)
        others = [
            row
            for row in by_saving(found.rows, GRADIENTS)
            if row.method != BASELINE and not row.method.startswith(RECOMMENDED)
            if ours is not None and row.savings[GRADIENTS].share < ours.savings[GRADIENTS].share
        ]
        if others:
            first, more = others[0], f" and {len(others) - 1} more" if len(others) > 1 else ""
            said[found.task] = f"fewer with {first.method}: {saving_text(first.savings[GRADIENTS])}{more}"
    return said


def _on_common_seeds(runs: Sequence[BenchmarkRun]) -> list[BenchmarkRun]:
    """Without the seeds that some method of the task was not run with."""
    seeds: dict[tuple[str, str], set[int]] = {}
    for run in runs:
        if not run.validates:
            seeds.setdefault((run.task, run.method), set()).add(run.seed)
    common = {task: set.intersection(*(some for (one, _), some in seeds.items() if one == task)) for task, _ in seeds}
    return [run for run in runs if run.validates or run.seed in common[run.task]]


def _brief(task: str) -> str:
    """Its name in a table: what is special about it, or its data, with the network only where there are several."""
    data, _, *special = task.split(", ")
    if special:
        return special[0]
    networks = {one.model for one in ALL if one.name.split(", ")[0] == data}
    return task if len(networks) > 1 else data


def answer() -> str:
    """What the page answers."""
    return _prose(" ".join(_page().answer))


def verdicts() -> str:
    """Every claim in a few words, with its count and where it holds."""
    rows = [(f"{row.claim.name}: {row.claim.brief}", row.verdict_text, row.where) for row in _claims()]
    return _table(("claim", "verdict", "where it holds"), rows)


def decided() -> str:
    """Every claim with where it holds."""
    rows = [(f"{row.claim.name}: {row.claim.text}", row.verdict_text, row.where) for row in _claims()]
    return _table(("claim", "verdict", "where it holds"), rows)


def versions() -> str:
    """The verdicts of all three versions of the rule, side by side."""
    rows = [
        (row.claim.name, *EARLIER_VERDICTS[row.number], row.verdict_text, REASONS.get(row.number, ""))
        for row in _page().claims
    ]
    return _table(("claim", "first version", "second version", "third version", "why it changed"), rows)


EARLIER_VERDICTS = {
    "C1": ("not reproduced", "partly"),
    "C2": ("partly", "partly"),
    "C3": ("reproduced", "not reproduced"),
    "C4": ("not reproduced", "not reproduced"),
    "C5": ("partly", "not reproduced"),
    "C6": ("not reproduced", "not reproduced"),
    "C7": ("not reproduced", "not reproduced"),
    "C8": ("not reproduced", "not reproduced"),
    "C9": ("not reproduced", "not reproduced"),
    "C10": ("not reproduced", "not reproduced"),
    "C11": ("inconclusive", "inconclusive"),
    "C12": ("reproduced", "reproduced"),
    "C13": ("not reproduced", "not reproduced"),
}
"""Claim -> by the first and the second version of the rule, from the same rows. Their code is in the history."""

REASONS = {
    "C1": "First: noise floors on F − F* counted as differences. Third: both axes and both lengths are readings.",
    "C2": "First: literal iris, which falls by 10⁻⁷%, counted. Third: no schedule is preferred.",
    "C3": "First: only F − F*. Second: only F decided. Third: both are readings.",
    "C5": "Second: a threshold of ours excluded the paper's own setting. Third: it counts.",
    "C6": "First: decided by 0.0003% on Boston. Second: the same threshold as in C5. Third: all cells count.",
    "C7": "Third: one part that fails no longer decides for all parts.",
    "C8": "Third: as in C7.",
    "C9": "Third: as in C7.",
    "C10": "Third: as in C7; comparisons of fewer than five seeds count, and are open.",
    "C11": "Third: the saving follows from the start epoch, so that only the accuracy is a cell.",
    "C12": "Third: three claims; the counterexamples count.",
    "C13": "Third: as in C10.",
}


def _claims() -> list[ClaimRow]:
    return sorted(_page().claims, key=lambda row: list(Verdict).index(row.claim.verdict))


@cache
def _page() -> Page:
    return page_of(read_table(RESULTS / "lab.parquet"))


@cache
def _rows() -> list[BenchmarkRun]:
    return read_rows(RESULTS / "benchmark.parquet")


@cache
def _recommended() -> dict[str, tuple[Standings, Standing]]:
    """Every task that it has been run on, all methods and its own row."""
    found = all_standings(_rows())
    return {one.task: (one, row) for one in found if (row := one.row(RECOMMENDED)) is not None}


def _prose(text: str) -> str:
    """Wrapped."""
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PARTS: Mapping[str, Callable[[], str]] = {
    "promise": promise,
    "caveats": caveats,
    "answer": answer,
    "verdicts": verdicts,
    "decided": decided,
    "versions": versions,
}

if __name__ == "__main__":
    main()

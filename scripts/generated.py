# ruff: noqa: INP001 - a script: run by path
"""Write what README and docs say of the committed results, between `<!-- NAME -->` and `<!-- end -->`.

    python scripts/generated.py

NAME is a function here. `make generated` draws the pictures too.
"""

import csv
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import mean

from gradorder_lab.benchmark.measure import LOSS
from gradorder_lab.benchmark.referee import Trial, all_trials
from gradorder_lab.benchmark.rows import read_rows
from gradorder_lab.benchmark.suites import CONFIRMATION
from gradorder_lab.judge.claims import Verdict
from gradorder_lab.methods import RECOMMENDED
from gradorder_lab.runs.shipped import read_table
from gradorder_lab.show import referee
from gradorder_lab.show.page import ClaimRow, Page, page_of

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
DOCUMENTS = tuple(ROOT / name for name in ("README.md", "docs/paper.md", "docs/laboratory.md"))

MEASURED = ROOT / "src" / "gradorder" / "diagnostics" / "measured.py"

_ROWS = re.compile(r"(?<=^MEASURED = \(\n).*?(?=^\)$)", flags=re.DOTALL | re.MULTILINE)
_PART = re.compile(r"(?P<start><!-- (?P<name>[a-z]+) -->\n).*?(?P<end><!-- end -->)", flags=re.DOTALL)


def main() -> None:
    """Write all of them."""
    for path in DOCUMENTS:
        path.write_text(filled(path.read_text()))
    MEASURED.write_text(with_measured(MEASURED.read_text()))


def filled(text: str) -> str:
    """The text with every part written anew."""
    return _PART.sub(lambda found: f"{found['start']}\n{PARTS[found['name']]()}\n\n{found['end']}", text)


def with_measured(code: str) -> str:
    """The code of `gradorder.diagnostics.measured` with its numbers written anew."""
    advised: dict[str, list[float]] = {}
    with (RESULTS / "saving.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["part"] == "benchmark":
                advised.setdefault(row["task"], []).append(float(row["skipped_halfway"]))
    rows = [
        _measured(trial, mean(advised[trial.task.name]))
        for trial in _trials()
        if trial.method == RECOMMENDED and trial.task in CONFIRMATION and trial.task.name in advised
    ]
    return _ROWS.sub("".join(rows), code)


def _measured(trial: Trial, skipped: float) -> str:
    numbers = f'"{trial.task.name}", {skipped:.3f}, {trial.gradients:.3f}'
    if trial.task.measure == LOSS:  # its difference is positive where the loss is smaller
        return f"    Measured({numbers}, {-trial.difference.mean:.2f}, is_accuracy=False),\n"
    return f"    Measured({numbers}, {trial.difference.mean:.2f}),\n"


def promise() -> str:
    """What the default saves and loses."""
    return f"{_prose(referee.promise(_trials()))}\n\n{_table(*referee.groups_table(_trials()))}"


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
def _trials() -> list[Trial]:
    return all_trials(read_rows(RESULTS / "benchmark.parquet"))


def _prose(text: str) -> str:
    """Wrapped."""
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PARTS: Mapping[str, Callable[[], str]] = {
    "promise": promise,
    "answer": answer,
    "verdicts": verdicts,
    "decided": decided,
    "versions": versions,
}

if __name__ == "__main__":
    main()

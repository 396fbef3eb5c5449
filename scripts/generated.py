# ruff: noqa: INP001 - a script: run by path
"""Write what README and docs/paper.md say of the committed results, between `<!-- NAME -->` and `<!-- end -->`.

    python scripts/generated.py

NAME is a function here. `make generated` draws the pictures too.
"""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import isnan
from pathlib import Path

from gradorder_lab.benchmark.aims import MOST_TIME, Missed
from gradorder_lab.benchmark.curves import FEWEST
from gradorder_lab.benchmark.methods import BASELINE, RECOMMENDED
from gradorder_lab.benchmark.rows import BenchmarkRun, read_rows
from gradorder_lab.benchmark.standard_tasks import ALL
from gradorder_lab.benchmark.standings import GRADIENTS, Standing, Standings, all_standings, by_saving
from gradorder_lab.judge.claims import Verdict
from gradorder_lab.runs.shipped import read_table
from gradorder_lab.show.evidence import Evidence
from gradorder_lab.show.page import ClaimRow, Page, page_of
from gradorder_lab.show.standings import difference_text, saving_text
from gradorder_lab.training.network import CLOCK

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "paper.md")

_PART = re.compile(r"(?P<start><!-- (?P<name>[a-z]+) -->\n).*?(?P<end><!-- end -->)", flags=re.DOTALL)


def main() -> None:
    """Write all of them."""
    for path in DOCUMENTS:
        path.write_text(filled(path.read_text()))


def filled(text: str) -> str:
    """The text with every part written anew."""
    return _PART.sub(lambda found: f"{found['start']}\n{PARTS[found['name']]()}\n\n{found['end']}", text)


def promise() -> str:
    """What the default saves and loses, over all tasks."""
    found = [row for _, row in _recommended().values()]
    cheaper = [row.savings[GRADIENTS].share for row in found if _is_cheaper(row)]
    spent = [row.spent[GRADIENTS] for row in found]
    return _prose(
        "Leave out of every epoch what the network has learned, by the losses that training computes anyway. On "
        f"{len(cheaper)} of {len(found)} tasks this reached the accuracy of tuned random reshuffling, less a small "
        f"margin, with {min(cheaper):.2f} to {max(cheaper):.2f} of its gradients; on the others it saved nothing "
        f"beyond noise. Trained for as many epochs, it took {min(spent):.2f} to {max(spent):.2f} of the gradients and "
        f"was as accurate, within that margin and noise, on {len(found) - len(_behind())} of the {len(found)}. Where "
        "nothing is learned, the order is that of random reshuffling, to the bit."
    )


def caveats() -> str:
    """A sentence each: where the default saves nothing, ends behind, takes longer, has another step size, is beaten."""
    said = (_not_cheaper(), _no_faster(), _not_level(), _longer(), _other_step_sizes(), _fewer_gradients())
    return "\n".join(_prose(one, item=True) for one in said if one)


def _not_cheaper() -> str:
    """Without the intervals, which stand in the picture above."""
    others = [
        _brief(task) + ("" if row.num_seeds >= FEWEST else f" ({row.num_seeds} seeds)")
        for task, (_, row) in _recommended().items()
        if not _is_cheaper(row)
    ]
    return _listed("It is not cheaper beyond noise on", others)


def _no_faster() -> str:
    """Where it takes fewer gradients to the target, but not less time; both timed together."""
    times = {task: row.savings[CLOCK] for task, (_, row) in _recommended().items() if _is_cheaper(row)}
    slower = [f"{_brief(task)}: {saving_text(time)}" for task, time in times.items() if time.high >= 1]
    return _listed("It takes fewer gradients, but no less time beyond noise, on", slower)


def _is_cheaper(row: Standing) -> bool:
    """Beyond noise: of fewer seeds no interval can tell."""
    return row.savings[GRADIENTS].high < 1 and row.num_seeds >= FEWEST


def _not_level() -> str:
    behind = [f"{_brief(task)}: {difference_text(_recommended()[task][1].difference)}" for task in _behind()]
    return _listed("After as many epochs it is behind, by more than that margin or noise, on", behind)


def _behind() -> list[str]:
    """The tasks where it ends behind by more than the margin, or beyond noise."""
    found = _recommended().items()
    return [task for task, (all_, row) in found if Missed.of(all_, row).accuracy or row.difference.high < 0]


def _longer() -> str:
    """Where both were timed together."""
    missed = {task: row.spent for task, (all_, row) in _recommended().items() if Missed.of(all_, row).time}
    longer = [f"{_brief(task)}: {spent[CLOCK] / spent[GRADIENTS] - 1:.0%}" for task, spent in missed.items()]
    return _listed(f"Its share of the time is more than {MOST_TIME - 1:.0%} above that of the gradients on", longer)


def _other_step_sizes() -> str:
    """Where the search found another one than for random reshuffling."""
    others = [
        f"{_brief(task)}: {row.step_size:g} for {all_.step_size:g}"
        for task, (all_, row) in _recommended().items()
        if row.step_size != all_.step_size
    ]
    return _listed("The search gave it a step size other than random's, which no interval accounts for, on", others)


def _fewer_gradients() -> str:
    """Methods of others that take fewer gradients than ours: the first of every task, and how many follow.

    By the seeds that all methods of a task have.
    """
    said = []
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
            share, time = saving_text(first.savings[GRADIENTS]), _in_time(first.savings[CLOCK].share)
            said.append(f"{_brief(found.task)}: {first.method} {share}{time}{more}")
    return _listed("Others take fewer gradients on", said)


def _on_common_seeds(runs: Sequence[BenchmarkRun]) -> list[BenchmarkRun]:
    """Without the seeds that some method of the task was not run with."""
    seeds: dict[tuple[str, str], set[int]] = {}
    for run in runs:
        if not run.validates:
            seeds.setdefault((run.task, run.method), set()).add(run.seed)
    common = {task: set.intersection(*(some for (one, _), some in seeds.items() if one == task)) for task, _ in seeds}
    return [run for run in runs if run.validates or run.seed in common[run.task]]


def _in_time(share: float) -> str:
    """Nothing where the two were not timed together."""
    return "" if isnan(share) else f" in {share:.2f} of the time"


def _brief(task: str) -> str:
    """Its name in a sentence: what is special about it, or its data, with the network only where there are several."""
    data, _, *special = task.split(", ")
    if special:
        return special[0]
    networks = {one.model for one in ALL if one.name.split(", ")[0] == data}
    return task if len(networks) > 1 else data


def _listed(told: str, cases: Sequence[str]) -> str:
    """The sentence; nothing where there is no case."""
    return f"{told} {'; '.join(cases)}." if cases else ""


def answer() -> str:
    """What the page answers."""
    return _prose(" ".join(_page().answer))


def verdicts() -> str:
    """Every claim in a few words."""
    return _table(("claim", "verdict"), [(f"{row.claim.name}: {row.claim.brief}", _verdict(row)) for row in _claims()])


def decided() -> str:
    """Every claim with what decides."""
    rows = [(f"{row.claim.name}: {row.claim.text}", _verdict(row), _deciding(row)) for row in _claims()]
    return _table(("claim", "verdict", "what decides"), rows)


def _verdict(row: ClaimRow) -> str:
    holds, counted = row.claim.readings
    return f"{row.claim.verdict} ({holds} of {counted})" if counted else str(row.claim.verdict)


def _deciding(row: ClaimRow) -> str:
    part = row.deciding
    if part is None or part.evidence is None:
        return part.untested if part is not None else ""
    exception = "" if part.exception is None else f"; but {_told(part.exception)}"
    return f"{_told(part.evidence)}{exception}"


def _told(evidence: Evidence) -> str:
    what = evidence.what if evidence.reading.startswith(evidence.data) else evidence.shown
    return f"{what} ({evidence.reading}): {evidence.effect} ({evidence.interval}), {evidence.num_seeds} seeds"


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


def _prose(text: str, *, item: bool = False) -> str:
    """Wrapped; as an item of a list, if it is one."""
    first, later = ("- ", "  ") if item else ("", "")
    lines = textwrap.wrap(
        text, 120, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PARTS: Mapping[str, Callable[[], str]] = {
    "promise": promise,
    "caveats": caveats,
    "answer": answer,
    "verdicts": verdicts,
    "decided": decided,
}

if __name__ == "__main__":
    main()

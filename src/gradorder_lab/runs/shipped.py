"""The results that come with the laboratory: the table of a full run, so that the report needs no run at all.

Made again by `make results`. New runs join those that are there:

    python -m gradorder_lab.runs.shipped TABLE [TABLE or DIRECTORY ...]

writes into TABLE what the others hold: directories of `gradorder reproduce`, or tables. Of a seed that several have,
the first counts.
"""

import sys
from functools import reduce
from pathlib import Path

import gradorder_lab
from gradorder_lab.errors import LabError
from gradorder_lab.runs import table
from gradorder_lab.runs.store import STORE, Store
from gradorder_lab.runs.summary import Summary

LAB_RESULTS = "lab.parquet"


def shipped_summary() -> Summary:
    """What the shipped results say."""
    found = find_file(LAB_RESULTS)
    if found is None:
        raise LabError("no results are shipped with this installation: run `gradorder reproduce` first")
    return table.read_table(found)


def find_file(name: str) -> Path | None:
    """A file of results: inside an installed package, or in `results/` of a source checkout; None without it."""
    package = Path(gradorder_lab.__file__).parent
    places = (package / "results" / name, package.parents[1] / "results" / name)
    return next((place for place in places if place.exists()), None)


def has_runs(out: Path) -> bool:
    """Whether something was run in `out`."""
    return (out / STORE).exists()


def summary_of(out: Path) -> Summary:
    """What was run in `out`; without a store there, what the shipped results say."""
    return _run_in(out) if has_runs(out) else shipped_summary()


def beside(out: Path) -> Summary | None:
    """What to show beside the runs in `out`: the shipped results, unless there are none or no runs."""
    return shipped_summary() if has_runs(out) and find_file(LAB_RESULTS) is not None else None


def _run_in(out: Path) -> Summary:
    with Store(out) as store:
        return Summary.of(store)


def gathered(places: list[Path]) -> Summary:
    """What all of these hold."""
    for place in places:
        if not place.is_file() and not has_runs(place):
            raise LabError(f"{place} has no runs")
    return reduce(
        Summary.with_others, [table.read_table(place) if place.is_file() else _run_in(place) for place in places]
    )


if __name__ == "__main__":
    table.write_table(gathered([Path(place) for place in sys.argv[2:]]), Path(sys.argv[1]))

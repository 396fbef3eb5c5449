"""`gradorder report`: the page from the rows of a directory, or from the results shipped with the laboratory."""

from pathlib import Path

import gradorder_lab
from gradorder_lab import experiments, report
from gradorder_lab.errors import LabError
from gradorder_lab.store import FILE_NAME, Store
from gradorder_lab.summary import Summary

RESULTS = "lab.npz"


def write_page(out: Path) -> Path:
    """Write `out/index.html` and return its path."""
    return report.write(summary_of(out), out)


def summary_of(out: Path) -> Summary:
    """What was run in `out`; without a store there, what the shipped results say."""
    if not (out / FILE_NAME).exists():
        return Summary.load(shipped_results())
    with Store(out) as store:
        return Summary.of(store, experiments.all_recipes())


def shipped_results() -> Path:
    """The file of results: inside an installed package, or in `results/` of a source checkout."""
    package = Path(gradorder_lab.__file__).parent
    places = (package / "results" / RESULTS, package.parents[1] / "results" / RESULTS)
    for place in places:
        if place.exists():
            return place
    raise LabError("no results are shipped with this installation: run `gradorder reproduce` first")

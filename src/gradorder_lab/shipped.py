"""The results that come with the laboratory: the summary of a full run, so that the report needs no run at all.

Made again by `make results`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import gradorder_lab
from gradorder_lab import experiments
from gradorder_lab.errors import LabError
from gradorder_lab.store import FILE_NAME, Store
from gradorder_lab.summary import RecipeSummary, Summary

RESULTS = "lab.npz"


def find() -> Path:
    """The summary of the full run."""
    found = find_file(RESULTS)
    if found is None:
        raise LabError("no results are shipped with this installation: run `gradorder reproduce` first")
    return found


def find_file(name: str) -> Path | None:
    """A file of results: inside an installed package, or in `results/` of a source checkout; None without it."""
    package = Path(gradorder_lab.__file__).parent
    places = (package / "results" / name, package.parents[1] / "results" / name)
    return next((place for place in places if place.exists()), None)


def summary_of(out: Path) -> Summary:
    """What was run in `out`; without a store there, what the shipped results say."""
    if not (out / FILE_NAME).exists():
        return Summary.load(find())
    with Store(out) as store:
        return Summary.of(store, experiments.all_recipes())


def main(path: str, *outs: str) -> None:
    """Write the summary of the runs in these directories, for `make results`."""
    for out in outs:
        if not (Path(out) / FILE_NAME).exists():
            raise LabError(f"{out} has no runs")
    merged([summary_of(Path(out)) for out in outs]).save(Path(path))


def merged(summaries: Sequence[Summary]) -> Summary:
    """All of them as one; of a recipe that several have, the first with the most seeds."""
    recipes: dict[str, RecipeSummary] = {}
    for summary in summaries:
        for name, runs in summary.recipes.items():
            if name not in recipes or len(runs.seeds) > len(recipes[name].seeds):
                recipes[name] = runs
    return Summary(recipes, tuple(facts for summary in summaries for facts in summary.environments))


if __name__ == "__main__":
    main(*sys.argv[1:])

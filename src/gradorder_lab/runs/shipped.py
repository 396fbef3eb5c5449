"""The results that come with the laboratory, so that the report needs no run at all: one tidy table in a Parquet file.

A line is the end of one run, or a point of the curve of a recipe over its seeds:

    experiment, revision, settings   the recipe; settings as JSON
    statistic                        "end", "mean", or how far "low" and "high" (90% of the seeds) are from the mean
    seed, environment                of the run; empty for curves. The file's metadata has the environments
    row                              place in the curve; empty for ends
    loss, excess, train_loss, ...    the columns of the rows; empty where a run does not have it

Of a run of a single row the curve says nothing that the ends do not, and of a loss beside its excess: neither is kept.

Made again by `make results`. New runs join those that are there:

    python -m gradorder_lab.runs.shipped TABLE [TABLE or DIRECTORY ...]

writes into TABLE what the others hold: directories of `gradorder reproduce`, or tables. Of a seed that several have,
the first counts.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

import gradorder_lab
from gradorder_lab.errors import LabError
from gradorder_lab.runs.origin import check_shippable
from gradorder_lab.runs.recipe import Array, identified
from gradorder_lab.runs.store import Store, has_runs
from gradorder_lab.runs.summary import NOT_NOTED, Band, RecipeSummary, Summary
from gradorder_lab.runs.whole_file import whole_file

LAB_RESULTS = "lab.parquet"
_END = "end"
_ABOUT = ("experiment", "revision", "settings", "statistic", "seed", "environment", "row")
_NO_ROW = -1
_ENVIRONMENTS = b"environments"

Lines = tuple[str, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], dict[str, Array]]
"""Lines of one recipe with one statistic: it, seeds, environments, rows, and the columns."""


def shipped_summary() -> Summary:
    """What the shipped results say."""
    found = find_file(LAB_RESULTS)
    if found is None:
        raise LabError("no results are shipped with this installation: run `gradorder reproduce` first")
    return read_table(found)


def find_file(name: str) -> Path | None:
    """A file of results: inside an installed package, or in `results/` of a source checkout; None without it."""
    package = Path(gradorder_lab.__file__).parent
    places = (package / "results" / name, package.parents[1] / "results" / name)
    return next((place for place in places if place.exists()), None)


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
    """What all of these hold, to be shipped.

    Raises:
        LabError: a directory has no runs, or runs that must not be shipped: see `check_shippable`.
    """
    for place in places:
        if not place.is_file() and not has_runs(place):
            raise LabError(f"{place} has no runs")
    found = [read_table(place) if place.is_file() else _run_in(place) for place in places]
    for place, summary in zip(places, found, strict=True):
        for facts in summary.environments if place.is_dir() else ():
            check_shippable(facts)
    return reduce(Summary.with_others, found)


# ---- the table ----


def write_table(summary: Summary, path: Path) -> None:
    """Write the table, whole or not at all."""
    table = _as_table(summary)
    numbers = [name for name in table.column_names if name not in _ABOUT]
    with whole_file(path) as unfinished:
        parquet.write_table(
            table,
            unfinished,
            compression="zstd",
            compression_level=19,
            use_dictionary=["experiment", "settings", "statistic"],
            column_encoding=dict.fromkeys(numbers, "BYTE_STREAM_SPLIT"),
        )


def _as_table(summary: Summary) -> Any:  # noqa: ANN401 - pyarrow has no types
    """The summary, line by line."""
    blocks = [(identity, block) for identity, runs in summary.recipes.items() for block in _blocks(runs)]
    lengths = [len(rows) for _, (_, _, _, rows, _) in blocks]
    recipes = [json.loads(identity) for identity, _ in blocks]
    names = list(dict.fromkeys(name for _, (*_, columns) in blocks for name in columns))
    about = {
        "experiment": _repeated([recipe[0] for recipe in recipes], lengths),
        "revision": pa.array(np.repeat([recipe[1] for recipe in recipes], lengths).astype(np.int32)),
        "settings": _repeated([json.dumps(recipe[2], sort_keys=True) for recipe in recipes], lengths),
        "statistic": _repeated([block[0] for _, block in blocks], lengths),
    }
    for place, name in enumerate(("seed", "environment", "row"), start=1):
        values = np.concatenate([block[place] for _, block in blocks])
        about[name] = pa.array(values.astype(np.int32), mask=values < 0)
    columns = {name: _column(name, [block[-1] for _, block in blocks], lengths) for name in names}
    metadata = {_ENVIRONMENTS: json.dumps([dict(facts) for facts in summary.environments]).encode()}
    return pa.table(about | columns).replace_schema_metadata(metadata)


def _blocks(runs: RecipeSummary) -> Iterator[Lines]:
    none = np.full(len(runs.seeds), _NO_ROW)
    yield _END, runs.seeds, runs.origins, none, dict(runs.last)
    bands = {name: band for name, band in runs.bands.items() if not (name == "loss" and "excess" in runs.bands)}
    num_points = max((len(band.mean) for band in bands.values()), default=1)
    if num_points > 1:
        none, rows = np.full(num_points, _NO_ROW), np.arange(num_points)
        yield "mean", none, none, rows, {name: band.mean for name, band in bands.items()}
        # what a picture shows of a band needs no more digits, measured from its mean
        yield "low", none, none, rows, {name: _short(band.low - band.mean) for name, band in bands.items()}
        yield "high", none, none, rows, {name: _short(band.high - band.mean) for name, band in bands.items()}


def _short(values: Array) -> Array:
    return values.astype(np.float32).astype(np.float64)


def _repeated(values: list[str], lengths: list[int]) -> Any:  # noqa: ANN401
    return pa.array(values).dictionary_encode().take(np.repeat(np.arange(len(values)), lengths))


def _column(name: str, blocks: list[dict[str, Array]], lengths: list[int]) -> Any:  # noqa: ANN401
    filled = [block.get(name, np.zeros(length)) for block, length in zip(blocks, lengths, strict=True)]
    is_missing = np.repeat([name not in block for block in blocks], lengths)
    return pa.array(np.concatenate(filled), mask=is_missing)


def read_table(path: Path) -> Summary:
    """What `write_table` wrote.

    Raises:
        LabError: the file is damaged or another one.
    """
    try:
        with parquet.ParquetFile(path) as file:
            return _from_file(file)
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise LabError(f"{path} cannot be read as results: {error}") from error


def _from_file(file: Any) -> Summary:  # noqa: ANN401
    """The summary again: lines of one recipe and statistic stand together, so that a change of either ends a block.

    Column by column: most columns are empty for most lines, and together they would take a quarter of a gigabyte.
    """
    about = file.read(columns=list(_ABOUT))
    texts = [about[name].combine_chunks().dictionary_encode() for name in ("experiment", "settings", "statistic")]
    changes = np.any([np.diff(_values(column.indices)) for column in texts], axis=0)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    lines = [slice(*ends) for ends in pairwise([*starts, len(about)])]
    columns: list[dict[str, Array]] = [{} for _ in lines]
    for name in (name for name in file.schema_arrow.names if name not in _ABOUT):
        array = file.read(columns=[name])[name].combine_chunks()
        numbers, is_there = _values(array), _is_valid(array)
        for those, of_block in zip(lines, columns, strict=True):
            if is_there[those.start]:
                of_block[name] = numbers[those].copy()
    seeds, environments = (_noted(about[name].combine_chunks()) for name in ("seed", "environment"))
    blocks = [
        (identified(one["experiment"], one["revision"], json.loads(one["settings"])), one["statistic"], *found)
        for one, *found in zip(about.take(starts).to_pylist(), lines, columns, strict=True)
    ]
    recipes = {}
    for identity, of_recipe in groupby(blocks, key=lambda block: block[0]):
        by_statistic = {statistic: (those, found) for _, statistic, those, found in of_recipe}
        end, last = by_statistic[_END]
        curves = {statistic: found for statistic, (_, found) in by_statistic.items()}
        recipes[identity] = RecipeSummary(seeds[end], last, _bands(curves), environments[end])
    return Summary(recipes, tuple(json.loads(file.schema_arrow.metadata[_ENVIRONMENTS])))


def _noted(array: Any) -> NDArray[np.int64]:  # noqa: ANN401
    """Whole numbers, with a mark in place of missing ones."""
    return np.where(_is_valid(array), _values(array), NOT_NOTED).astype(np.int64)


def _values(array: Any) -> NDArray[Any]:  # noqa: ANN401
    """The numbers of an Arrow array, whatever stands in place of missing ones. Arrow's own way would load pandas."""
    kind = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1], dtype=kind)[array.offset : array.offset + len(array)]


def _is_valid(array: Any) -> NDArray[np.bool_]:  # noqa: ANN401
    """Which of its numbers are there: one bit each."""
    bits = array.buffers()[0]
    if bits is None:
        return np.ones(len(array), dtype=np.bool_)
    unpacked = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")
    return unpacked[array.offset : array.offset + len(array)].astype(np.bool_)


def _bands(curves: Mapping[str, Mapping[str, Array]]) -> dict[str, Band]:
    if "mean" not in curves:
        return {}
    mean, low, high = (curves[name] for name in ("mean", "low", "high"))
    return {name: Band(mean[name], mean[name] + low[name], mean[name] + high[name]) for name in mean}


if __name__ == "__main__":
    write_table(gathered([Path(place) for place in sys.argv[2:]]), Path(sys.argv[1]))

"""All runs as one tidy table, in a Parquet file: what is shipped, and what `make results` makes again.

A line is the end of one run, or a point of the curve of a recipe over its seeds:

    experiment, revision, settings   the recipe; settings as JSON
    statistic                        "end", "mean", or how far "low" and "high" (90% of the seeds) are from the mean
    seed, environment                of the run; empty for curves. The file's metadata has the environments
    row                              place in the curve; empty for ends
    loss, excess, train_loss, ...    the columns of the rows, see `gradorder export`; empty where a run does not have it

Of a run of a single row the curve says nothing that the ends do not, and of a loss beside its excess: neither is kept.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from gradorder_lab.errors import LabError
from gradorder_lab.runs.recipe import Array, identified
from gradorder_lab.runs.summary import NOT_NOTED, Band, RecipeSummary, Summary
from gradorder_lab.runs.whole_file import whole_file

END = "end"
CURVES = ("mean", "low", "high")
_ABOUT = ("experiment", "revision", "settings", "statistic", "seed", "environment", "row")
_NO_ROW = -1
_ENVIRONMENTS = b"environments"

Lines = tuple[str, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], dict[str, Array]]
"""Lines of one recipe with one statistic: it, seeds, environments, rows, and the columns."""


def write_table(summary: Summary, path: Path) -> None:
    """Write the table, whole or not at all."""
    table = as_table(summary)
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


def read_table(path: Path) -> Summary:
    """What `write_table` wrote.

    Raises:
        LabError: the file is damaged or another one.
    """
    try:
        return from_table(parquet.ParquetFile(path).read())
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise LabError(f"{path} cannot be read as results: {error}") from error


def as_table(summary: Summary) -> Any:  # noqa: ANN401 - pyarrow has no types
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
    yield END, runs.seeds, runs.origins, none, dict(runs.last)
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
    known = {value: number for number, value in enumerate(dict.fromkeys(values))}
    codes = np.repeat([known[value] for value in values], lengths).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes), list(known))


def _column(name: str, blocks: list[dict[str, Array]], lengths: list[int]) -> Any:  # noqa: ANN401
    filled = [block.get(name, np.zeros(length)) for block, length in zip(blocks, lengths, strict=True)]
    is_missing = np.repeat([name not in block for block in blocks], lengths)
    return pa.array(np.concatenate(filled), mask=is_missing)


def from_table(table: Any) -> Summary:  # noqa: ANN401
    """The summary again."""
    experiments, settings, statistics = (_codes(table[name]) for name in ("experiment", "settings", "statistic"))
    revisions = table["revision"].to_numpy()
    ints = {name: table[name].fill_null(NOT_NOTED).to_numpy().astype(np.int64) for name in ("seed", "environment")}
    names = [name for name in table.column_names if name not in _ABOUT]
    is_there = {name: table[name].is_valid().to_numpy(zero_copy_only=False) for name in names}
    numbers = {name: table[name].to_numpy() for name in names}
    recipes: dict[str, RecipeSummary] = {}
    parts: dict[str, tuple[slice, dict[str, Array]]] = {}

    def finished(identity: str) -> None:
        if parts:
            lines, last = parts[END]
            recipes[identity] = RecipeSummary(
                ints["seed"][lines],
                last,
                _bands({name: parts[name][1] for name in CURVES if name in parts}),
                ints["environment"][lines],
            )
            parts.clear()

    places = np.flatnonzero(np.diff(settings[0]) | np.diff(statistics[0]) | np.diff(experiments[0])) + 1
    identity = ""
    for start, end in zip([0, *places], [*places, len(revisions)], strict=True):
        recipe = (experiments[1][experiments[0][start]], int(revisions[start]), settings[1][settings[0][start]])
        following = identified(recipe[0], recipe[1], json.loads(recipe[2]))
        if following != identity:
            finished(identity)
            identity = following
        lines = slice(start, end)
        columns = {name: numbers[name][lines].copy() for name in names if is_there[name][start]}
        parts[statistics[1][statistics[0][start]]] = lines, columns
    finished(identity)
    return Summary(recipes, tuple(json.loads(table.schema.metadata[_ENVIRONMENTS])))


def _codes(column: Any) -> tuple[NDArray[np.int64], list[str]]:  # noqa: ANN401
    encoded = column.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _bands(curves: Mapping[str, Mapping[str, Array]]) -> dict[str, Band]:
    if not curves:
        return {}
    mean, low, high = (curves[name] for name in CURVES)
    return {name: Band(mean[name], mean[name] + low[name], mean[name] + high[name]) for name in mean}

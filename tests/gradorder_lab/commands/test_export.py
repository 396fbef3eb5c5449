import csv
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pa_csv

from gradorder_lab import cli, paper
from gradorder_lab.commands import export
from gradorder_lab.paper import far
from gradorder_lab.paper.convex import ConvexRecipe
from gradorder_lab.paper.network import NeuralRecipe
from gradorder_lab.runs.store import Store

FACTS = {"torch": "2.6", "threads": 1}


def made_up_rows(number, columns=("epoch", "excess", "loss")):
    rng = np.random.default_rng(number)
    return {name: rng.standard_normal(5) * 10.0 ** rng.integers(-300, 300, 5) for name in columns}


@pytest.fixture
def runs():
    """Two experiments; settings that are sometimes None, sometimes a whole number; a value that is no number."""
    convex = [
        ConvexRecipe("iris", "iris literal", name, "1/(1+t)", keep=keep)
        for name, keep in (("random", 1), ("descending", 0.5))
    ]
    convex.append(ConvexRecipe("iris", 'iris, "quoted"\nline', "random", "constant", batch_fraction=0.3))
    net = NeuralRecipe(experiment="mnist", data="mnist", model="2-layer")
    found = {
        (recipe, seed): made_up_rows((number, seed)) for number, recipe in enumerate([*convex, net]) for seed in (0, 7)
    }
    found[convex[0], 0]["excess"] = np.array([1.0, np.nan, np.inf, -np.inf, 5e-324])
    return found


@pytest.fixture
def out(tmp_path, runs):
    with Store(tmp_path / "out", FACTS) as store:
        for (recipe, seed), rows in runs.items():
            store.add(recipe, seed, rows, 2.5)
    return tmp_path / "out"


def rebuilt(table):
    """(settings, seed) -> rows, from the columns of a table."""
    found = {}
    for line in table.to_pylist():
        settings = {name.removeprefix("setting_"): value for name, value in line.items() if name.startswith("setting_")}
        numbers = {
            name: line[name]
            for name in table.column_names
            if not name.startswith("setting_") and name not in export.RUN_COLUMNS
        }
        run = found.setdefault((json.dumps(settings, sort_keys=True), line["seed"]), [])
        assert line["row"] == len(run)
        run.append(numbers)
    return found


@pytest.mark.parametrize("read", ["parquet", "csv"])
def test_every_row_comes_back(out, runs, tmp_path, read):
    export.export(out, tmp_path / "to")
    for experiment in ("iris", "mnist"):
        if read == "parquet":
            table = pq.read_table(tmp_path / "to" / f"{experiment}.parquet")
        else:
            schema = pq.read_schema(tmp_path / "to" / f"{experiment}.parquet")
            options = pa_csv.ConvertOptions(column_types=schema, null_values=[""], strings_can_be_null=True)
            parse = pa_csv.ParseOptions(newlines_in_values=True)
            table = pa_csv.read_csv(tmp_path / "to" / f"{experiment}.csv", convert_options=options, parse_options=parse)
        found = rebuilt(table)
        ours = {key: rows for key, rows in runs.items() if key[0].experiment == experiment}
        assert len(found) == len(ours)
        for (recipe, seed), rows in ours.items():
            settings = {
                name: str(value) if isinstance(value, bool) else value for name, value in recipe.settings.items()
            }
            (lines,) = [one for (name, number), one in found.items() if number == seed and json.loads(name) == settings]
            for column, values in rows.items():
                np.testing.assert_array_equal([line[column] for line in lines], values)


def test_columns_say_where_a_row_is_from(out, tmp_path):
    export.export(out, tmp_path / "to")
    table = pq.read_table(tmp_path / "to" / "iris.parquet")
    assert table.column_names[:6] == list(export.RUN_COLUMNS)
    assert set(table["experiment"].to_pylist()) == {"iris"}
    assert table["seed"].to_pylist() == 3 * [*[0] * 5, *[7] * 5]  # recipe after recipe
    assert set(table["run_seconds"].to_pylist()) == {2.5}
    assert set(table["environment"].to_pylist()) == {0}
    assert json.loads((tmp_path / "to" / "environments.json").read_text()) == [FACTS]
    assert table.schema.field("setting_keep").type == pa.float64()
    assert table.schema.field("setting_epochs").type == pa.int64()
    assert table["setting_batch_fraction"].to_pylist().count(None) == 20


def test_a_column_that_only_some_runs_have_is_empty_in_the_others(tmp_path):
    old, new = (far.far_recipe("far", name, "constant") for name in ("random", "descending"))
    with Store(tmp_path) as store:
        store.add(old, 0, made_up_rows(0, ("epoch", "loss")), 1.0)
        store.add(new, 0, made_up_rows(1, ("epoch", "loss", "excess")), 1.0)
    export.export(tmp_path, tmp_path / "to")
    lines = pq.read_table(tmp_path / "to" / "synthetic-far.parquet").to_pylist()
    assert {line["setting_ordering"]: line["excess"] is None for line in lines} == {"random": True, "descending": False}


def test_every_column_has_a_meaning(tmp_path):
    """Of every kind of recipe; the networks' columns are read off the training loop."""
    from gradorder_lab.training.network import Cost  # noqa: PLC0415

    names = {"train_loss", "train_accuracy", "test_loss", "test_accuracy", *vars(Cost())}
    for experiment in ("synthetic-far", "bounds"):
        names |= set(paper.EXPERIMENTS[experiment].recipes("mini")[0].run(0))
    assert names <= set(export.MEANINGS)
    path = export._write_meanings(tmp_path)
    listed = [row["column"] for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())]
    assert listed == [*export.MEANINGS, "setting_*"]


def test_without_a_store_the_shipped_results_are_written(tmp_path):
    from gradorder_lab.runs import shipped  # noqa: PLC0415

    files = export.export(tmp_path / "nothing", tmp_path / "to")
    assert not (tmp_path / "nothing").exists()
    assert {path.name for path in files} == {path.name for path in (tmp_path / "to").iterdir()}
    summary = shipped.summary_of(tmp_path / "nothing")
    recipe = far.far_recipe("far", "descending", "1/(1+t)")
    runs = summary.get(recipe)
    chosen = [
        ("setting_problem", "=", "far"),
        ("setting_ordering", "=", "descending"),
        ("setting_schedule", "=", "1/(1+t)"),
    ]
    ends = pq.read_table(tmp_path / "to" / "synthetic-far-ends.parquet", filters=chosen)
    np.testing.assert_array_equal(ends["seed"], runs.seeds)
    np.testing.assert_array_equal(ends["excess"], runs.last["excess"])
    curves = pq.read_table(
        tmp_path / "to" / "synthetic-far-curves.parquet", filters=[*chosen, ("column", "=", "excess")]
    )
    for end in ("mean", "low", "high"):
        np.testing.assert_array_equal(curves[end], getattr(runs.bands["excess"], end))
    assert set(curves["num_seeds"].to_pylist()) == {100}


def test_a_failed_export_leaves_no_half_a_file(out, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "run_columns", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        export.export(out, tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


def test_the_command_writes_below_out_unless_told(out, tmp_path, monkeypatch, capsys):
    for arguments, where in (([], out / "export"), (["--to", str(tmp_path / "there")], tmp_path / "there")):
        monkeypatch.setattr(sys, "argv", ["gradorder", "export", "--out", str(out), *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0
        names = {"iris.parquet", "iris.csv", "mnist.parquet", "mnist.csv", "environments.json", "columns.csv"}
        assert {path.name for path in where.iterdir()} == names
        assert set(capsys.readouterr().out.split()) == {str(where / name) for name in names}
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sys, "argv", ["gradorder", "export", "--out", str(out), "--to", str(tmp_path / "file")])
    with pytest.raises(SystemExit, match="--to must be a directory that can be written to"):
        cli.main()

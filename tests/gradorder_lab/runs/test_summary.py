import itertools

import numpy as np
import pytest

from gradorder_lab import paper
from gradorder_lab.errors import LabError
from gradorder_lab.judge.effects import difference_of_effects, effect
from gradorder_lab.paper.convex import ConvexRecipe
from gradorder_lab.runs import sweep
from gradorder_lab.runs.recipe import SIZES, Workspace, identified
from gradorder_lab.runs.shipped import read_table, write_table
from gradorder_lab.runs.store import Store
from gradorder_lab.runs.summary import RecipeSummary, Summary

RECIPES = [ConvexRecipe("test", "iris scaled", name, "1/(1+t)", 3) for name in ("random", "descending", "ascending")]
RANDOM, DESCENDING, ASCENDING = RECIPES


@pytest.fixture
def summary(tmp_path):
    with Store(tmp_path, {"python": "3.11"}) as store:
        for recipe, seeds in ((RANDOM, (0, 1, 2, 5)), (DESCENDING, (0, 2, 5, 7))):
            for seed in seeds:
                store.add(recipe, seed, recipe.run(seed), 0.0)
        return Summary.of(store)


def test_a_summary_holds_the_ends_by_seed_and_the_bands(summary):
    runs = summary.get(RANDOM)
    rows = {seed: RANDOM.run(seed) for seed in (0, 1, 2, 5)}
    assert runs.seeds.tolist() == [0, 1, 2, 5]
    assert runs.last["excess"].tolist() == [run["excess"][-1] for run in rows.values()]
    table = np.array([run["loss"] for run in rows.values()])
    assert runs.bands["loss"].mean.tolist() == table.mean(0).tolist()
    assert runs.bands["loss"].low.tolist() == np.quantile(table, 0.05, axis=0).tolist()
    assert runs.bands["loss"].high.tolist() == np.quantile(table, 0.95, axis=0).tolist()
    assert summary.get(ASCENDING) is None


def test_a_summary_survives_its_file(summary, tmp_path):
    write_table(summary, tmp_path / "summary.parquet")
    again = read_table(tmp_path / "summary.parquet")
    assert list(again.recipes) == list(summary.recipes)
    assert again.environments == ({"python": "3.11"},)
    for recipe in (RANDOM, DESCENDING):
        before, after = summary.get(recipe), again.get(recipe)
        assert after.seeds.tolist() == before.seeds.tolist()
        for name in before.last:
            assert after.last[name].tobytes() == before.last[name].tobytes()
        for name, band in after.bands.items():
            assert band.mean.tobytes() == before.bands[name].mean.tobytes()
            np.testing.assert_allclose(band.high, before.bands[name].high, rtol=1e-7)
            np.testing.assert_allclose(band.low, before.bands[name].low, rtol=1e-7)
        assert list(after.bands) == ["epoch", "updates", "scored", "excess"]
        assert after.environments.tolist() == before.environments.tolist() == [0] * 4
    (tmp_path / "summary.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(LabError, match=r"summary\.parquet cannot be read as results"):
        read_table(tmp_path / "summary.parquet")


def test_what_was_read_from_a_file_can_be_written_again(tmp_path):
    rows = {0: {"bound": np.array([1.5])}, 1: {"bound": np.array([2.5])}}
    single, two = (identified("test", 1, {"rows": number}) for number in (1, 2))
    first = Summary({single: RecipeSummary.of(rows), two: RecipeSummary.of({0: {"loss": np.ones(2)}})})
    write_table(first, tmp_path / "first.parquet")
    write_table(read_table(tmp_path / "first.parquet"), tmp_path / "second.parquet")
    again = read_table(tmp_path / "second.parquet")
    assert again.recipes[single].last["bound"].tolist() == [1.5, 2.5]
    assert again.recipes[two].bands["loss"].mean.tolist() == [1.0, 1.0]


def test_effects_are_over_the_seeds_that_both_have(summary):
    found = effect(summary, DESCENDING, RANDOM, random=RANDOM, unit="excess")
    ours, theirs = ([recipe.run(seed) for seed in (0, 2, 5)] for recipe in (DESCENDING, RANDOM))
    excess = [np.array([run["excess"][-1] for run in runs]) for runs in (ours, theirs)]
    assert found.num_seeds == 3
    assert found.mean == pytest.approx((excess[0] - excess[1]).mean() / excess[1].mean(), rel=1e-12)
    losses = [np.array([run["loss"][-1] for run in runs]) for runs in (ours, theirs)]
    assert found.loss_difference == pytest.approx((losses[0] / losses[1] - 1).mean(), rel=1e-9)
    assert effect(summary, ASCENDING, RANDOM, random=RANDOM) is None
    nothing = difference_of_effects(summary, (DESCENDING, RANDOM), (DESCENDING, RANDOM))
    assert (nothing.mean, nothing.low, nothing.high) == (0, 0, 0)


def test_every_recipe_is_told_apart_and_belongs_to_its_experiment():
    for experiment, size in itertools.product(paper.EXPERIMENTS.values(), SIZES):
        recipes = list(experiment.recipes(size))
        assert len({str(sorted(recipe.settings.items(), key=str)) for recipe in recipes}) == len(recipes)
        assert {recipe.experiment for recipe in recipes} <= {experiment.name}


def test_claims_and_figures_use_only_what_is_run(tmp_path):
    """Every comparison and every curve is there once every recipe has been run."""
    neural = {"mnist", "fashion-mnist", "cifar10", "cifar100"}
    convex = [one for one in paper.EXPERIMENTS.values() if one.claims and one.name not in neural]
    with Store(tmp_path) as store:
        wanted = [(recipe, 1) for one in convex for recipe in one.recipes("mini")]
        pieces = sweep.missing(wanted, store, Workspace())
        sweep.run_all(pieces, store, jobs=1, cluster=None, on_finished=lambda _: None)
        for recipe, _ in wanted:  # what is compared is compared over seeds; which, is all the same here
            store.add(recipe, 1, store.rows(recipe)[0], 0.0)
        summary = Summary.of(store)
    claims = paper.claims(summary)
    numbers = [*range(1, 12), "12a", "12b", "12c", 13]
    assert [claim.name for claim in claims] == [f"C{number}" for number in numbers]
    convex_claims = {"C1", "C2", "C3", "C4", "C5", "C6", "C12a", "C12b", "C12c"}
    judged = [claim for claim in claims if claim.name in convex_claims]
    for experiment in convex:
        for figure in experiment.figures(summary):
            assert all(panel.curves and not panel.missing for panel in figure.panels)
            assert all(curve.num_seeds == 2 for panel in figure.panels for curve in panel.curves)
        for table in experiment.tables(summary):
            assert {len(row) for row in table.rows} == {len(table.header)}
    for claim in judged:
        assert claim.count.missing == 0
        assert all(cell.effect is not None for cell in claim.cells)
        assert len({cell.key for cell in claim.cells}) == len(claim.cells)


def test_without_runs_nothing_is_claimed():
    nothing = Summary({})
    for claim in paper.claims(nothing):
        assert claim.verdict == "not tested"
    for experiment in paper.EXPERIMENTS.values():
        for figure in experiment.figures(nothing):
            assert all(panel.missing and not panel.curves for panel in figure.panels)

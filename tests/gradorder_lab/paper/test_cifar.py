from dataclasses import replace

import numpy as np
import pytest

from gradorder_lab import paper
from gradorder_lab.paper import cifar
from gradorder_lab.runs.summary import RecipeSummary, Summary

NOISE = np.array([-0.03, 0.02, 0.01, -0.02, 0.03, -0.01])
"""Of the seeds, in points; smaller for every later method, so that paired differences have a spread."""


def as_the_paper_says(method, sort, start):
    """Test error, train loss and example gradients in thousands."""
    is_ordered = method == "mini ordered"
    late = start == pytest.approx(cifar.LATE)
    error = 30.0 if method.startswith("full") else 30.1 if late else 30.3
    return error, (0.01 if is_ordered else 0.02), 100.0 if method.startswith("full") else 60.0 + 30 * start


def summary_of(found, num_seeds=6, train_accuracy=99.0):
    recipes = [recipe for data in cifar.NET_OF for recipe in cifar.cifar_recipes(data, "cpu")]
    return Summary(
        {
            one.identity: RecipeSummary.of(
                {
                    seed: _rows(*found(one.method, one.sort, one.start_epoch / one.epochs), noise / (2 + place))
                    | {"train_accuracy": np.array([10.0, train_accuracy])}
                    for seed, noise in enumerate(NOISE[:num_seeds])
                }
            )
            for place, one in enumerate(recipes)
        }
    )


def _rows(error, loss, trained, noise):
    return {
        "epoch": np.array([0.0, 30.0]),
        "train_loss": np.array([2.3, loss + noise / 100]),
        "test_accuracy": np.array([10.0, 100 - error + noise]),
        "trained": np.array([0.0, 1000 * trained]),
    }


def judged(summary):
    return {claim.name: claim for claim in paper.claims(summary) if claim.name in {"C9", "C10", "C11", "C13"}}


def test_six_seeds_in_the_regime_of_the_paper_are_judged():
    claims = judged(summary_of(as_the_paper_says))
    assert {name: (str(claim.verdict), claim.count.judged) for name, claim in claims.items()} == {
        "C9": ("reproduced", 8),
        "C10": ("reproduced", 8),
        "C11": ("reproduced", 4),
        "C13": ("reproduced", 12),
    }
    assert all(claim.is_reduced and claim.seeds == (6, 6) for claim in claims.values())


def test_what_the_runs_contradict_is_not_reproduced():
    def against(method, sort, start):
        error, loss, trained = as_the_paper_says(method, sort, start)
        return error if method.startswith("full") else error - 2 * (0.7 - start), 0.03 - loss, trained

    assert {name: str(claim.verdict) for name, claim in judged(summary_of(against)).items()} == {
        "C9": "partly",  # the training loss is not lowest, the test error is within half a point
        "C10": "partly",
        "C11": "reproduced",
        "C13": "not reproduced",
    }


def test_another_regime_cannot_say_anything_and_shows_its_number():
    for claim in judged(summary_of(as_the_paper_says, train_accuracy=97.9)).values():
        assert claim.verdict == "not tested"
        assert all("97.9%" in cell.untested for cell in claim.cells)
        assert all(cell.effect is not None for cell in claim.cells)


def test_an_early_start_that_saves_less_than_a_tenth_cannot_say_anything():
    def hardly_cheaper(method, sort, start):
        error, loss, trained = as_the_paper_says(method, sort, start)
        return error, loss, max(trained, 91.0)

    claim = judged(summary_of(hardly_cheaper))["C11"]
    assert claim.verdict == "not tested"
    assert all("9.0%" in cell.untested for cell in claim.cells)


def test_the_best_start_is_judged_on_every_mini_algorithm_against_both_starts_on_both_data_sets():
    claim = judged(summary_of(as_the_paper_says))["C13"]
    assert len(claim.cells) == 2 * 3 * 2
    assert {cell.compared for cell in claim.cells} == {"from 0.7 - from 0.4", "from 0.7 - from 0.5"}


def test_cells_that_hold_by_themselves_may_not_hold_together():
    """Twelve differences whose spread leaves a p between 0.05 / 12 and 0.05 each."""
    recipes = dict(summary_of(as_the_paper_says).recipes)
    for data in cifar.NET_OF:
        for method in cifar.MINIS:
            late = cifar.cifar_recipe(data, "cpu", method, cifar.LATE).identity
            noisy = recipes[late].last["test_accuracy"] + 5 * NOISE
            recipes[late] = replace(recipes[late], last={**recipes[late].last, "test_accuracy": noisy})
    claim = judged(Summary(recipes))["C13"]
    assert all(0.05 / 12 < cell.decision(cell.effect)[1] < 0.05 for cell in claim.cells)
    assert {cell.outcome() for cell in claim.cells} == {"holds"}
    assert set(claim.outcomes.values()) == {"open"}
    assert claim.verdict == "inconclusive"

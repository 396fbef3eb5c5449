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
    assert {name: (str(claim.verdict), claim.readings) for name, claim in claims.items()} == {
        "C9": ("reproduced", (2, 2)),
        "C10": ("reproduced", (2, 2)),
        "C11": ("reproduced", (4, 4)),
        "C13": ("reproduced", (6, 6)),
    }
    assert {claim.num_seeds for claim in claims.values()} == {6}


def test_what_the_runs_contradict_is_not_reproduced():
    def against(method, sort, start):
        error, loss, trained = as_the_paper_says(method, sort, start)
        return error if method.startswith("full") else error - 2 * (0.7 - start), 0.03 - loss, trained

    assert {name: str(claim.verdict) for name, claim in judged(summary_of(against)).items()} == {
        "C9": "not reproduced",
        "C10": "not reproduced",
        "C11": "reproduced",
        "C13": "not reproduced",
    }


@pytest.mark.parametrize(
    ("settings", "why"), [({"num_seeds": 4}, "4 paired seeds"), ({"train_accuracy": 97.9}, "97.9%")]
)
def test_too_few_seeds_or_another_regime_test_nothing(settings, why):
    for claim in judged(summary_of(as_the_paper_says, **settings)).values():
        assert claim.verdict == "not tested at this size"
        assert all(why in claim.untested_on(data) for data in claim.data)


def test_the_best_start_is_judged_on_both_mini_algorithms_against_both_starts_on_both_data_sets():
    claim = judged(summary_of(as_the_paper_says))["C13"]
    primary = [one for data in claim.data for one in claim.primary_on(data)]
    assert len(primary) == 2 * 2 * 2
    assert {one.what for one in primary} == {
        f"test error, {method} from 0.7 - from {start}"
        for method in ("mini ordered", "mini random")
        for start in (0.4, 0.5)
    }
    assert all("within" not in one.reading for one in primary)


def test_comparisons_that_hold_by_themselves_may_not_hold_together():
    """Eight differences whose spread leaves a p between 0.05 / 8 and 0.05 each."""
    recipes = dict(summary_of(as_the_paper_says).recipes)
    for data in cifar.NET_OF:
        for method in cifar.MINIS:
            late = cifar.cifar_recipe(data, "cpu", method, cifar.LATE).identity
            noisy = recipes[late].last["test_accuracy"] + 5 * NOISE
            recipes[late] = replace(recipes[late], last={**recipes[late].last, "test_accuracy": noisy})
    claim = judged(Summary(recipes))["C13"]
    primary = [one for data in claim.data for one in claim.primary_on(data)]
    assert all(0.05 / 8 < one.decision[1] < 0.05 for one in primary)
    assert {one.outcome for one in primary} == {"holds"}
    assert {claim.outcome_of(one) for one in primary} == {"open"}
    assert claim.verdict == "inconclusive"

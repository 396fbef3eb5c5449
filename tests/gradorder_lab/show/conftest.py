"""A summary with made-up runs of every recipe: what is on the page does not depend on how the numbers came about."""

from dataclasses import replace

import numpy as np
import pytest
from chromium import running_chromium

from gradorder_lab import paper
from gradorder_lab.runs.recipe import SIZES
from gradorder_lab.runs.summary import RecipeSummary, Summary

NUM_ROWS = 6
SEEDS = range(5)


def made_up_rows(number):
    rng = np.random.default_rng(number)
    excess = np.sort(rng.uniform(0.1, 10, NUM_ROWS))[::-1].copy()
    excess[0] = 200  # all but a few percent of it is gone when the warm-up ends
    place = np.arange(NUM_ROWS, dtype=float)
    counts = {
        "epoch": np.array([0.0, 15, 30, 80, 140, 200]),
        "updates": 32 * place,
        "trained": 32 * place,
        "scored": 16 * place,
    }
    convex = {"excess": excess, "loss": 5 + excess, "processor_seconds": place, "seconds": place}
    return counts | convex | neural_columns(excess, place) | bounds_columns(excess)


def neural_columns(falling, place):
    accuracies = {f"{split}_accuracy": 100 - falling / 10 for split in ("train", "held_out", "test")}
    losses = {f"{split}_loss": falling for split in ("train", "test")}
    return accuracies | losses | {"forward": 48 * place, "backward": 32 * place}


def bounds_columns(falling):
    terms = ("measured", "first_order_sum", "pair_sum", "distance", "first_order", "epsilon_term")
    bounds = {f"{name}_bound": 2 * falling for name in ("published", "corrected", "tight")}
    shares = (
        "published_holds",
        "corrected_holds",
        "tight_holds",
        "premise_share",
        "theorem",
        "step_size",
        "step_limit",
    )
    return bounds | dict.fromkeys(terms, falling) | dict.fromkeys(shares, np.ones(NUM_ROWS))


def made_up(recipes):
    runs = {
        recipe.identity: RecipeSummary.of({seed: made_up_rows((number, seed)) for seed in SEEDS})
        for number, recipe in enumerate(recipes)
    }
    return Summary(runs, ({"torch": "2.6", "machine": "a <b>bold</b> one", "commit": None, "size": "mini"},))


def all_recipes():
    """The recipes of every experiment at every size."""
    found = (recipe for one in paper.EXPERIMENTS.values() for size in SIZES for recipe in one.recipes(size))
    return list({recipe.identity: recipe for recipe in found}.values())


@pytest.fixture(scope="session")
def full_summary():
    return made_up(all_recipes())


@pytest.fixture(scope="session")
def summary_without_iris(full_summary):
    iris = {recipe.identity for recipe in all_recipes() if recipe.experiment == "iris"}
    return replace(
        full_summary, recipes={name: runs for name, runs in full_summary.recipes.items() if name not in iris}
    )


@pytest.fixture(scope="module")
def browser():
    """For one module: while it runs, no other event loop can."""
    with running_chromium() as running:
        yield running

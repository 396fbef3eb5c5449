"""A summary with made-up runs of every recipe: what is on the page does not depend on how the numbers came about."""

import numpy as np
import pytest

from gradorder_lab import experiments
from gradorder_lab.summary import RecipeSummary, Summary, identity

NUM_ROWS = 6
SEEDS = range(4)


def made_up_rows(number):
    rng = np.random.default_rng(number)
    excess = np.sort(rng.uniform(0.1, 10, NUM_ROWS))[::-1]
    place = np.arange(NUM_ROWS, dtype=float)
    counts = {"epoch": place, "updates": 32 * place, "trained": 32 * place, "scored": 16 * place}
    return counts | {"excess": excess, "loss": 5 + excess, "metric": excess, "seconds": place}


def made_up(recipes):
    runs = {
        identity(recipe): RecipeSummary.of({seed: made_up_rows((number, seed)) for seed in SEEDS})
        for number, recipe in enumerate(recipes)
    }
    return Summary(runs, ({"torch": "2.6", "machine": "a <b>bold</b> one", "commit": None, "size": "mini"},))


@pytest.fixture(scope="session")
def full_summary():
    return made_up(experiments.all_recipes())


@pytest.fixture(scope="session")
def summary_without_iris():
    return made_up([recipe for recipe in experiments.all_recipes() if recipe.experiment != "iris"])

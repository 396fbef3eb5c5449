from dataclasses import replace

import numpy as np
import pytest

from gradorder_lab import paper
from gradorder_lab.paper import grey_images, network, tuned_steps
from gradorder_lab.paper.network import RANDOM, NeuralRecipe
from gradorder_lab.runs.summary import RecipeSummary, Summary

WITHIN = ("mini ordered", "within")
NOISE = np.array([-0.02, 0.01, 0.0, 0.02, -0.01])


def summary_of(accuracy):
    """Runs of five seeds; `accuracy` (variant, step size, split) -> percent."""
    recipes = {
        (variant, step): tuned_steps.tuned_recipe("mnist", variant, step)
        for variant in tuned_steps.VARIANTS
        for step in tuned_steps.STEP_SIZES
    }
    return Summary(
        {
            recipe.identity: RecipeSummary.of(
                {
                    seed: {
                        f"{split}_accuracy": np.array([10.0, accuracy(*key, split) + noise])
                        for split in ("train", "held_out", "test")
                    }
                    for seed, noise in enumerate(NOISE * (1 + len(key[0][1])))
                }
            )
            for key, recipe in recipes.items()
        }
    )


def like_a_larger_step(variant, step, split):
    """Sorting within doubles the step, and does nothing else."""
    effective = 2 * step if variant == WITHIN else step
    return 90 - abs(np.log2(effective / 0.4)) + (5 if split == "test" else 0)


def better_at_any_step(variant, step, split):
    return 90 - abs(np.log2(step / 0.8)) + (1 if variant == WITHIN else 0)


def held_out_disagrees(variant, step, split):
    """On the test images the smallest step is best, on the held-out ones the largest."""
    return 90 + (step if split == "held_out" else -step)


def outcomes(summary, reading):
    found = [one for one in tuned_steps.cells("mnist", summary) if one.reading[-1] == reading]
    assert set(found) <= set(grey_images._most_accurate("mnist", "cpu", summary))
    return {one.outcome() for one in found if "sort within" in one.part}


def test_an_order_that_only_acts_like_a_larger_step_gains_nothing_with_steps_of_its_own():
    summary = summary_of(like_a_larger_step)
    assert tuned_steps.chosen_step_size("mnist", RANDOM, summary) == 0.4
    assert tuned_steps.chosen_step_size("mnist", WITHIN, summary) == 0.2
    assert outcomes(summary, tuned_steps.OWN_STEPS) == {"fails"}
    assert outcomes(summary, tuned_steps.RANDOMS_STEP) == {"fails"}
    said = tuned_steps.step_size_answer("mnist", summary)
    assert "with 0.1 for all" in said.lower()
    assert "-1.00 points" in said
    assert "0.4 for full random and 0.2 for sort within, by +0.00 points (" in said
    assert said.endswith(": the gain is the effect of a larger step.")


def test_an_order_that_is_better_at_any_step_gains_with_its_own_too():
    summary = summary_of(better_at_any_step)
    assert outcomes(summary, tuned_steps.OWN_STEPS) == {"holds"}
    assert tuned_steps.step_size_answer("mnist", summary).endswith("the gain is not the effect of a larger step alone.")
    (table,) = tuned_steps.tuned_tables("mnist", summary)
    assert {row[-3] for row in table.rows} == {"0.8, an edge"}


def test_too_few_seeds_say_neither_that_there_is_a_gain_nor_that_there_is_none():
    whole = summary_of(better_at_any_step)
    one_seed = {
        identity: RecipeSummary.of({0: {name: values[:1] for name, values in runs.last.items()}})
        for identity, runs in whole.recipes.items()
    }
    assert tuned_steps.step_size_answer("mnist", Summary(one_seed)).endswith("larger step these runs cannot say.")


def test_the_test_images_have_no_say_in_the_choice():
    summary = summary_of(held_out_disagrees)
    assert tuned_steps.chosen_step_size("mnist", RANDOM, summary) == max(tuned_steps.STEP_SIZES)


def test_nothing_is_chosen_before_every_step_size_was_run():
    whole = summary_of(like_a_larger_step)
    missing = tuned_steps.tuned_recipe("mnist", RANDOM, tuned_steps.STEP_SIZES[-1]).identity
    summary = Summary({identity: runs for identity, runs in whole.recipes.items() if identity != missing})
    assert tuned_steps.chosen_step_size("mnist", RANDOM, summary) is None
    assert outcomes(summary, tuned_steps.RANDOMS_STEP) == {None}
    assert outcomes(summary, tuned_steps.OWN_STEPS) == {None, "fails"}  # mini random is there
    assert "not known yet" in tuned_steps.step_size_answer("mnist", summary)
    (table,) = tuned_steps.tuned_tables("mnist", summary)
    assert [row[-3] for row in table.rows] == ["-", "0.4", "0.2", "0.4"]
    assert table.rows[0][len(tuned_steps.STEP_SIZES)] == "-"


def test_a_held_out_part_leaves_the_identity_of_all_other_recipes_as_it_was():
    plain = NeuralRecipe(experiment="mnist", data="mnist", model="2-layer")
    assert "held_out" not in plain.settings
    assert replace(plain, held_out=0.1).settings == {**plain.settings, "held_out": 0.1}
    assert replace(plain, held_out=0.1).checkpoint(0, network.Workspace()) != plain.checkpoint(0, network.Workspace())


def test_the_held_out_part_is_measured_and_not_trained_on():
    recipe = NeuralRecipe(
        experiment="test", data="mnist", size="mini", num_train=500, model="2-layer", epochs=3, held_out=0.1
    )
    run = network.begin(recipe, 0, network.Workspace())
    assert (len(run.train), len(run.measured["held_out"])) == (450, 50)
    parts = [run.train.positions.tolist(), run.measured["held_out"].positions.tolist()]
    assert sorted(parts[0] + parts[1]) == list(range(500))
    rows = recipe.run(0)
    assert rows["trained"][-1] == 3 * 450
    assert rows["held_out_accuracy"][-1] > 50


@pytest.mark.parametrize("sort", ["within", "first"])
def test_a_step_size_that_is_too_large_is_judged_by_what_it_has(sort):
    recipe = NeuralRecipe(
        experiment="test",
        data="mnist",
        size="mini",
        num_train=500,
        model="2-layer",
        method="mini ordered",
        sort=sort,
        step_size=1e18,
        evaluate_every=10,
        held_out=0.1,
    )
    rows = recipe.run(0)
    assert rows["epoch"].tolist() == [0, 10]
    assert rows["held_out_accuracy"][-1] < 30


def test_the_search_is_an_experiment_of_its_own_that_feeds_the_claims():
    for data, claim in grey_images.MOST_ACCURATE_CLAIMS.items():
        experiment = paper.EXPERIMENTS[tuned_steps.name_of(data)]
        assert claim in experiment.claims
        assert experiment.recipes("mini") == []
        assert len(experiment.recipes("cpu")) == len(tuned_steps.STEP_SIZES) * len(tuned_steps.VARIANTS)

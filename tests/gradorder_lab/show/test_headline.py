import numpy as np
import pytest

from gradorder_lab.paper import grey_images
from gradorder_lab.runs.summary import RecipeSummary, Summary
from gradorder_lab.show import headline
from gradorder_lab.show.headline import headline_of

RANDOM, MINI_RANDOM, WITHIN = (
    grey_images.grey_recipe("mnist", "cpu", "2-layer", 128, method) for method in grey_images.VARIANTS_BY_SORT["within"]
)
LATE = grey_images.grey_recipe("mnist", "cpu", "2-layer", 128, ("mini ordered", "first"), grey_images.LATE)
TASK = "mnist, 2-layer, batch 128, 10 epochs, size cpu"


def runs(accuracies, cost=1.0):
    """Two seeds, half a point apart; every epoch costs 100 example gradients, times `cost`."""
    place = np.arange(len(accuracies), dtype=float)
    spent = {"epoch": place, "trained": 100 * place * cost, "forward": 200 * place, "backward": 100 * place}
    spent |= {"processor_seconds": 3 * place * cost}
    rows = {seed: spent | {"test_accuracy": np.array(accuracies) + seed / 2 - 0.25} for seed in (0, 1)}
    return RecipeSummary.of(rows)


def summary_of(**found):
    recipes = {"random": RANDOM, "mini_random": MINI_RANDOM, "within": WITHIN, "late": LATE}
    return Summary({recipes[name].identity: one for name, one in found.items()})


def test_the_first_evaluation_at_the_target_counts():
    summary = summary_of(
        random=runs([10, 80, 89, 90]),  # the target is 89.5: reached at the end
        within=runs([10, 89.5, 70, 95], cost=0.5),  # reached at once, though lost again
        mini_random=runs([10, 60, 70, 89.4], cost=0.5),
        late=runs([10, 80, 91, 90]),
    )
    found = {one.strategy: one for one in headline_of(summary).arrivals}
    assert {one.task for one in found.values()} == {TASK}
    assert {one.target for one in found.values()} == {89.5}
    within = found["mini ordered, sort within"]
    assert within.epoch == 1
    assert within.spent == {"trained": 50, "forward": 200, "backward": 100, "processor_seconds": 1.5}
    assert within.ratios == pytest.approx(
        {"trained": 50 / 300, "forward": 1 / 3, "backward": 1 / 3, "processor_seconds": 1.5 / 9}
    )
    assert found["full random"].ratios == dict.fromkeys(headline.MEASURES, 1.0)
    assert found["mini random"].epoch is None
    assert found["mini random"].ratios == {}
    assert found["mini ordered, sort first, from 70% of the run"].epoch == 2


def test_a_run_that_other_work_slowed_down_does_not_move_the_ratio_of_times():
    place = np.arange(4.0)
    rows = {
        seed: dict.fromkeys(("epoch", "trained", "forward", "backward"), place)
        | {"processor_seconds": place * slowed, "test_accuracy": np.array([10.0, 60.0, 89.0, 90.0])}
        for seed, slowed in enumerate([1.0, 1.0, 50.0])
    }
    found = headline_of(summary_of(random=runs([10, 80, 89, 90]), within=RecipeSummary.of(rows)))
    within = next(one for one in found.arrivals if one.strategy == "mini ordered, sort within")
    assert within.spent["processor_seconds"] == pytest.approx(3.0)


def test_strategies_are_medians_over_the_tasks_where_they_got_there():
    tasks = {}
    for data in ("mnist", "fashion-mnist"):
        for net, epoch in (("2-layer", 1), ("7-layer", 2)):
            random, *_, within = (
                grey_images.grey_recipe(data, "cpu", net, 128, one) for one in grey_images.VARIANTS_BY_SORT["within"]
            )
            tasks[random.identity] = runs([10, 20, 30, 90])
            reached = [10, *([20] * (epoch - 1)), *([90] * (4 - epoch))]
            is_never = (data, net) == ("mnist", "7-layer")
            tasks[within.identity] = runs([10, 20, 30, 40] if is_never else reached)
    strategies = {one.name: one for one in headline_of(Summary(tasks)).strategies}
    within = strategies["mini ordered, sort within"]
    assert (within.num_reached, within.num_tasks) == (3, 4)
    assert within.median_ratios["trained"] == pytest.approx(1 / 3)  # of 1/3, 1/3, 2/3


def test_a_task_where_random_learns_nothing_is_left_out_and_named():
    found = headline_of(summary_of(random=runs([10, 10, 10, 10]), within=runs([10, 50, 60, 70])))
    assert found.arrivals == ()
    assert found.strategies == ()
    assert found.untrained == (TASK,)


def test_without_its_baseline_a_task_is_missing():
    found = headline_of(summary_of(within=runs([10, 50, 60, 70])))
    assert found.arrivals == ()
    assert found.missing == ("mnist", "fashion-mnist", "cifar10", "cifar100")
    assert headline_of(summary_of(random=runs([10, 50]))).missing == ("fashion-mnist", "cifar10", "cifar100")

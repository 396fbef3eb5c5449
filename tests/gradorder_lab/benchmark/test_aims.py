from dataclasses import replace

import pytest
from benchmark_rows import rows_of

from gradorder_lab.benchmark.aims import MOST_GRADIENTS, Missed
from gradorder_lab.benchmark.standard_tasks import ALL
from gradorder_lab.benchmark.standings import Standings

PLAIN = {0.25: 75.0, 1.0: 77.0}


def missed(task, *, accuracy=77.0, cost=0.4, time=1.0, commit="same"):
    ours = rows_of("recommended", {0.25: 75.0, 1.0: accuracy}, task=task, cost=cost)
    ours = [replace(row, processor_seconds=time * row.processor_seconds, commit=commit) for row in ours]
    plain = [replace(row, commit="same") for row in rows_of("random reshuffling", PLAIN, task=task)]
    found = Standings.of(task, 0.1, [*plain, *ours])
    return Missed.of(found, found.row("recommended"))


def test_what_is_reached_is_not_missed():
    assert missed("mnist, 2-layer") == Missed(gradients=False, time=False, accuracy=False)


@pytest.mark.parametrize(
    ("task", "cost", "is_missed"),
    [
        ("mnist, 2-layer", 0.49, False),
        ("mnist, 2-layer", 0.52, True),
        ("fashion-mnist, 7-layer", 0.62, True),
        ("terrain, 2-layer", 0.79, False),
        ("sst2, bag-of-words", 0.99, False),
        ("sst2, bag-of-words", 1.01, True),
    ],
)
def test_every_task_has_its_share_of_the_gradients(task, cost, is_missed):
    assert missed(task, cost=cost).gradients is is_missed


@pytest.mark.parametrize(("time", "is_missed"), [(1.04, False), (1.06, True)])
def test_time_may_be_five_percent_above_the_gradients(time, is_missed):
    assert missed("mnist, 2-layer", time=time).time is is_missed


def test_a_time_that_does_not_compare_is_neither_reached_nor_missed():
    assert missed("mnist, 2-layer", commit="another").time is None


@pytest.mark.parametrize(("accuracy", "is_missed"), [(76.92, False), (76.88, True)])
def test_accuracy_may_end_behind_by_the_margin(accuracy, is_missed):
    assert missed("mnist, 2-layer", accuracy=accuracy).accuracy is is_missed


def test_aims_are_of_tasks_that_there_are():
    assert set(MOST_GRADIENTS) <= {task.name for task in ALL}

"""The list of tasks: names that tell them apart, and nothing that cannot be run."""

from gradorder_lab.benchmark import standard_tasks
from gradorder_lab.benchmark.task import DATA_NAMES
from gradorder_lab.models.named import MODELS


def test_names_tell_tasks_apart_and_say_what_they_are():
    names = [task.name for task in standard_tasks.ALL]
    assert len(set(names)) == len(names)
    for task in standard_tasks.ALL:
        assert task.data in DATA_NAMES
        assert task.model in MODELS
        assert task.name.startswith(task.data)
        assert task.model in task.name


def test_the_default_is_tuned_on_three_tasks_only():
    assert [task.data for task in standard_tasks.TUNED_ON] == ["terrain", "fashion-mnist", "sst2"]
    assert set(standard_tasks.TUNED_ON) <= set(standard_tasks.ALL)


def test_margins_are_those_that_were_fixed_beforehand():
    wide = {task.data for task in standard_tasks.ALL if task.margin == 0.5}
    assert wide == {"cifar10", "cifar10-features", "sst2", "snippets", "tinyshakespeare"}
    assert {task.margin for task in standard_tasks.ALL} == {0.1, 0.5}
    assert min(task.seeds for task in standard_tasks.ALL) == 5

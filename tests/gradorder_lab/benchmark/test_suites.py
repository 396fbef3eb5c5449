"""The list of tasks: names that tell them apart, and nothing that cannot be run."""

from gradorder_lab.benchmark import suites
from gradorder_lab.models.named import MODELS
from gradorder_lab.training.split import DATA_NAMES


def test_names_tell_tasks_apart_and_say_what_they_are():
    names = [task.name for task in suites.ALL]
    assert len(set(names)) == len(names)
    for task in suites.ALL:
        assert task.data in DATA_NAMES
        assert task.model in MODELS
        assert task.name.startswith(task.data)
        assert task.model in task.name


def test_the_default_is_tuned_on_three_tasks_only():
    assert [task.data for task in suites.TUNED_ON] == ["terrain", "fashion-mnist", "sst2"]
    assert set(suites.TUNED_ON) <= set(suites.ALL)


def test_margins_are_those_that_were_fixed_beforehand():
    wide = {task.data for task in suites.ALL if task.margin == 0.5}
    assert wide == {"cifar10", "cifar10-features", "sst2", "snippets", "tinyshakespeare"}
    assert {task.margin for task in suites.ALL} == {0.1, 0.5}
    assert min(task.seeds for task in suites.ALL) == 5

"""The list of tasks: names that tell them apart, and nothing that cannot be run."""

from gradorder_lab.benchmark import suites
from gradorder_lab.methods import BASELINE, named
from gradorder_lab.models.named import MODELS
from gradorder_lab.training.split import DATA_NAMES


def test_names_tell_tasks_apart_and_say_what_they_are():
    names = [task.name for task in suites.EVERY]
    assert len(set(names)) == len(names)
    for task in suites.EVERY:
        assert task.data in DATA_NAMES
        assert task.model in MODELS
        assert task.name.startswith(task.data.removesuffix("-features"))


def test_every_confirmation_task_has_adamw_and_every_table_sgd_as_well():
    names = [task.name for task in suites.CONFIRMATION]
    tables = [name.removesuffix(", SGD") for name in names if name.endswith(", SGD")]
    assert len(tables) == 7
    assert all(f"{name}, AdamW" in names for name in tables)
    assert {task.data for task in suites.CONFIRMATION} <= set(DATA_NAMES)
    assert {task.seeds for task in suites.FINE_TUNING} == {5}
    assert {task.seeds for task in suites.CONFIRMATION if task not in suites.FINE_TUNING} == {10}


def test_no_confirmation_task_is_one_that_the_default_was_tuned_on():
    assert not {task.data for task in suites.CONFIRMATION} & {"terrain", "fashion-mnist", "sst2"}


def test_margins_of_the_confirmation_tasks():
    margins = {task.data: task.margin for task in suites.CONFIRMATION}
    wide = {"digits", "breast-cancer", "banking77", "trec", "clinc150", "cifar100-features"}
    assert {data for data, margin in margins.items() if margin == 0.5} == wide
    assert {data for data, margin in margins.items() if margin == 0.1} == {"a9a", "w8a"}
    assert {data for data, margin in margins.items() if margin == 1} == {"california-housing", "diabetes"}


def test_the_suite_for_gpus_trains_the_full_network_with_crops():
    for task, epochs in zip(suites.CIFAR10_GPU, (30, 100), strict=True):
        training = task.training(named(BASELINE), 0.1)
        assert (training.width, training.crop, training.mixed_precision) == (None, 4, True)
        assert (training.epochs, training.momentum, training.weight_decay) == (epochs, 0.9, 5e-4)

"""Parts of a training on a task of the benchmark."""

from gradorder_lab.methods import BASELINE, METHODS


def plain(task, *, validates=False):
    """Plain training."""
    return task.training(METHODS[BASELINE], min(task.step_sizes), validates=validates)


def split_of(task, directory=None, *, validates=False, seed=0):
    """What it is trained and measured on."""
    return plain(task, validates=validates).split(directory, seed=seed)

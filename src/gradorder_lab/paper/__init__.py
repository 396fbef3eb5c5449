"""The paper's experiments, in its order: one file each, with its recipes, its claims and its figures."""

from collections.abc import Iterable

from gradorder_lab.errors import LabError
from gradorder_lab.judge.claims import Claim
from gradorder_lab.paper import bounds, cifar, far, grey_images, orders, selection, switch
from gradorder_lab.paper.experiment import Experiment
from gradorder_lab.runs.summary import Summary

EXPERIMENTS = {
    experiment.name: experiment
    for module in (orders, far, switch, selection, grey_images, cifar, bounds)
    for experiment in module.ENTRIES
}


def chosen(names: Iterable[str]) -> list[Experiment]:
    """The experiments with these names; all of them for none."""
    names = list(names)
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise LabError(f"EXPERIMENT must be one of {', '.join(EXPERIMENTS)}, got {unknown[0]!r}")
    return [EXPERIMENTS[name] for name in dict.fromkeys(names)] or list(EXPERIMENTS.values())


def claims(summary: Summary) -> list[Claim]:
    """Every claim, judged from what has been run."""
    judges = {name: judge for experiment in EXPERIMENTS.values() for name, judge in experiment.claims.items()}
    return [judges[name](summary) for name in in_number(judges)]


def in_number(names: Iterable[str]) -> list[str]:
    """The names of claims, C2 before C10, C12a before C12b."""
    return sorted(names, key=lambda name: (int(name.strip("Cabc")), name))
